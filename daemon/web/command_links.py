"""Commands in sentences as links to the pages that do or show the same. The command line and the API keep the commands."""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import takewhile
from typing import NamedTuple

from markupsafe import Markup

from tidegate.daemon.permissions import Right
from tidegate.daemon.web.rendering import url
from tidegate.daemon.web.shown import escaped

May = Callable[..., bool]
"""Whether the caller has a right: for these DAGs, or in general."""

_COMMAND = re.compile("`(tidegate [^`]+)`")
PLACEHOLDERS = frozenset({"DAG", "RUN", "TASK", "ID", "URI"})
"""Words of usage: a command with one of them names no object."""


class Page(NamedTuple):
    """A page for a command. Numbers in the parts of its address, in its label and its query are arguments of the command.

    `options` are those of the command that the page knows, too: the name of its parameter with the same values, or empty for an
    option that its form asks for.
    """

    label: str
    right: str
    arguments: int
    parts: tuple[str | int, ...]
    query: Mapping[str, int] = {}
    options: Mapping[str, str] = {}


class Target(NamedTuple):
    """A page with the arguments of its command that stand before the options, and the values of these by name."""

    page: Page
    arguments: Sequence[str]
    options: Mapping[str, str] = {}

    @property
    def address(self) -> str:
        page, arguments, options = self
        parts = (arguments[part] if isinstance(part, int) else part for part in page.parts)
        query = {name: arguments[number] for name, number in page.query.items()}
        shown = {page.options[name]: value for name, value in options.items() if page.options[name]}
        return url(*parts, **query, **shown)

    def is_permitted(self, may: May, dags: Sequence[str]) -> bool:
        """The right to change a backfill is that to its `dags`, which its number does not tell."""
        if self.page.right == Right.BACKFILL:
            return bool(dags) and may(self.page.right, *dags)
        return may(self.page.right, *(self.arguments[:1] if self.page.parts[:2] == _DAG else ()))


_DAG: tuple[str | int, ...] = ("dags", 0)
_RUN: tuple[str | int, ...] = (*_DAG, "runs", 1)
_TASK: tuple[str | int, ...] = (*_RUN, "tasks", 2)

PAGES: Mapping[tuple[str, str], Page] = {
    ("dags", "list"): Page("the page of all DAGs", "view", 0, ("dags",)),
    ("dags", "errors"): Page("the page of import errors", "view", 0, ("import-errors",)),
    ("dags", "show"): Page("the page of the DAG", "view", 1, _DAG),
    ("dags", "why-not"): Page("the page of the DAG", "view", 1, _DAG),
    ("dags", "pause"): Page("Pause {0}…", "edit", 1, (*_DAG, "pause")),
    ("dags", "unpause"): Page("Unpause {0}…", "edit", 1, (*_DAG, "pause")),
    ("dags", "release"): Page("Release {0}…", "edit", 1, (*_DAG, "release")),
    ("runs", "list"): Page("the page of the DAG", "view", 1, _DAG),
    ("runs", "trigger"): Page("Trigger {0}…", "edit", 1, (*_DAG, "trigger")),
    ("runs", "cancel"): Page("Cancel {1}…", "edit", 2, (*_RUN, "cancel")),
    ("tasks", "why-not"): Page("the page of {2}", "view", 3, _TASK),
    ("tasks", "mark"): Page("Mark {2}…", "edit", 4, (*_TASK, "mark")),
    ("tasks", "clear"): Page("Clear {2}…", "edit", 3, (*_RUN, "clear"), {"task": 2}, {"--yes": ""}),
    ("backfills", "list"): Page("the page of all backfills", "view", 0, ("backfills",)),
    ("backfills", "dates"): Page("the page of backfill {0}", "view", 1, ("backfills", 0), options={"--state": "state"}),
    ("backfills", "resume"): Page("Resume backfill {0}…", "backfill", 1, ("backfills", 0, "resume")),
    ("backfills", "retry"): Page("Retry backfill {0}…", "backfill", 1, ("backfills", 0, "retry")),
    ("backfills", "cancel"): Page("Cancel backfill {0}…", "backfill", 1, ("backfills", 0, "cancel")),
    ("backfills", "set"): Page("Change backfill {0}…", "backfill", 1, ("backfills", 0, "change")),
    ("pools", "list"): Page("the page of all pools", "view", 0, ("queue",)),
    ("pools", "set"): Page("Set the slots of {0}…", "operate", 2, ("queue", "slots"), {"name": 0}),
    ("datasets", "list"): Page("the page of all datasets", "view", 0, ("datasets",)),
    ("deadletters", "list"): Page("the page of dead letters", "view", 0, ("dead-letters",), options={"--state": "state"}),
    ("losses", "list"): Page("the System page", "view", 0, ("system",)),
    ("losses", "settle"): Page("Settle loss {0}…", "operate", 1, ("losses", 0, "settle"), options={"--because": ""}),
    ("topics", "halted"): Page("the System page", "view", 0, ("system",)),
    ("topics", "resume"): Page("Resume {0}…", "operate", 1, ("topics", "resume"), {"partition": 0}, {"--at": ""}),
}
"""By noun and verb. A command stays one without a page, without the right, and with an option that its page lacks."""


def links_to_pages(may: May) -> Mapping[str, Callable[..., Markup]]:
    """The functions that templates call."""
    return {"with_links": partial(with_links, may=may), "command_link": partial(command_link, may=may)}


def with_links(text: str, may: May, dags: Sequence[str] = ()) -> Markup:
    """The text as HTML. A command between backticks is a link if it has a page. `dags` are those of the backfill it names."""
    parts = enumerate(_COMMAND.split(text))
    return Markup("").join(command_link(part, may, dags) if number % 2 else escaped(part) for number, part in parts)


def command_link(command: str, may: May, dags: Sequence[str] = ()) -> Markup:
    """The command as a link to its page, or as it is."""
    found = page_of(command)
    if found is not None and found.is_permitted(may, dags):
        return Markup('<a href="{}">{}</a>').format(found.address, escaped(found.page.label.format(*found.arguments)))
    return Markup("<code>{}</code>").format(escaped(command))


def page_of(command: str) -> Target | None:
    try:
        _, noun, verb, *rest = shlex.split(command)
    except ValueError:
        return None
    page, arguments = PAGES.get((noun, verb)), list(takewhile(lambda word: not word.startswith("--"), rest))
    if page is None or len(arguments) != page.arguments or not PLACEHOLDERS.isdisjoint(arguments):
        return None
    options = _options(rest[len(arguments) :])
    return Target(page, arguments, options) if options.keys() <= page.options.keys() else None


def _options(words: Sequence[str]) -> Mapping[str, str]:
    """The words from the first option on, by option. A flag has no value."""
    options, name = dict[str, str](), ""
    for word in words:
        is_value = not word.startswith("--")
        name = name if is_value else word
        options[name] = word if is_value else ""
    return options
