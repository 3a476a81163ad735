"""Commands in the sentences of errors as operations of the API, and back: the API quotes no command, commands no operation."""

import re
import shlex
from collections.abc import Callable, Sequence
from typing import NamedTuple
from urllib.parse import quote, unquote


class Pair(NamedTuple):
    """A command and the operation that does the same, with the same names in braces."""

    command: str
    operation: str


PAIRS = tuple(
    Pair(*pair)
    for pair in (
        ("dags list", "GET /dags"),
        ("dags errors", "GET /import-errors"),
        ("dags show {dag}", "GET /dags/{dag}"),
        ("dags why-not {dag}", "GET /dags/{dag}/why-not"),
        ("dags release {dag}", "POST /dags/{dag}/release"),
        ("runs list {dag}", "GET /runs?dag_id={dag}"),
        ("runs cancel {dag} RUN", "POST /dags/{dag}/runs/RUN/cancel"),
        ("runs cancel {dag} {run}", "POST /dags/{dag}/runs/{run}/cancel"),
        ("backfills list", "GET /backfills"),
        ("backfills cancel {id}", "POST /backfills/{id}/cancel"),
        ("backfills cancel {id} --kill", "POST /backfills/{id}/cancel with kill=true"),
        ("backfills set {id} --pool NAME", "PATCH /backfills/{id} with a pool"),
        ("pools list", "GET /pools"),
        ("pools set {pool} SLOTS", "PUT /pools/{pool}"),
        ("datasets list", "GET /datasets"),
        ("datasets events URI", "GET /events?uri=URI"),
        ("deadletters list --state all", "GET /dead-letters?state=all"),
        ("tasks logs {dag} {run} {task} --follow", "repeated GET /dags/{dag}/runs/{run}/tasks/{task}/log"),
        ("tasks logs {dag} {run} {task} --try {number}", "GET /dags/{dag}/runs/{run}/tasks/{task}/log?try_number={number}"),
        ("losses list --all", "GET /losses?settled=true"),
        ("tokens list", "GET /tokens"),
        ("topics halted", "GET /topics/halted"),
    )
)
"""The first that matches counts."""

OPTIONS = {"new_topic=true": "--new-topic", "new_topic=false": "--same-topic"}
"""Fields of a body as options of the command that sends it."""

_NAME = re.compile(r"\{(\w+)\}")
_QUOTED = re.compile(r"`([^`]+)`")
_REMARK = re.compile(r" \([^()]*`tidegate [^`]*`[^()]*\)")
_COMMAND = "tidegate "
_CLAUSES = "; "


def with_operations(text: str) -> str:
    """The sentence for programs. A remark in brackets, or a clause, is left out if its command has no operation."""
    text = _REMARK.sub(lambda found: found[0] if _is_sayable(found[0]) else "", text)
    first, *others = text.split(_CLAUSES)
    said = [first, *filter(_is_sayable, others)]
    return _replaced(_CLAUSES.join(said), _operation)


def with_commands(text: str) -> str:
    """The sentence of an API for a terminal."""
    return _replaced(text, _command)


def _is_sayable(clause: str) -> bool:
    return not any(quoted.startswith(_COMMAND) and _operation(quoted) is None for quoted in _QUOTED.findall(clause))


def _replaced(text: str, other: Callable[[str], str | None]) -> str:
    return _QUOTED.sub(lambda found: f"`{other(found[1]) or found[1]}`", text)


def _operation(quoted: str) -> str | None:
    """The operation of a command; None for another text, and for a command without one."""
    if not quoted.startswith(_COMMAND):
        return None
    try:
        words = shlex.split(quoted.removeprefix(_COMMAND))
    except ValueError:
        return None
    return next(filter(None, (_of_words(words, pair) for pair in PAIRS)), None)


def _of_words(words: Sequence[str], pair: Pair) -> str | None:
    expected = pair.command.split()
    names = [_NAME.fullmatch(word) for word in expected]
    if len(words) != len(expected) or any(
        word != own and not name for word, own, name in zip(words, expected, names, strict=True)
    ):
        return None
    values = {name[1]: quote(word, safe="") for word, name in zip(words, names, strict=True) if name}
    return pair.operation.format(**values)


def _command(quoted: str) -> str | None:
    """The command of an operation, or the option of a field; None for another text."""
    if quoted in OPTIONS:
        return OPTIONS[quoted]
    for pair in PAIRS:
        pattern = _NAME.sub(r"(?P<\1>[^/?&]+)", re.escape(pair.operation).replace(r"\{", "{").replace(r"\}", "}"))
        if found := re.fullmatch(pattern, quoted):
            return _COMMAND + pair.command.format(
                **{name: shlex.quote(unquote(text)) for name, text in found.groupdict().items()}
            )
    return None
