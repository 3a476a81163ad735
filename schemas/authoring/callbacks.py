"""Callbacks and deadlines of DAG files: `Email`, `Webhook`, `Deadline`, and the `on_…` options of DAGs and tasks."""

from collections.abc import Callable, Mapping, Sequence
from datetime import time, timedelta
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from tidegate.schemas.authoring.arguments import after_or_at, callable_with
from tidegate.schemas.dag import DeadlineSince, DeadlineSpec
from tidegate.schemas.error import DagError, did_you_mean
from tidegate.schemas.notice import PLACEHOLDERS, CallbackContext, unknown_placeholders
from tidegate.schemas.receiver import (
    Callback,
    EmailReceiver,
    FunctionReceiver,
    On,
    WebhookReceiver,
)
from tidegate.schemas.timetable.spec import Cron, Every, Timetable

CallbackFunction = Callable[[CallbackContext], object]


class Email:
    """One mail to all addresses: `Email("ops@example.org", "dba@example.org")`. Needs an SMTP server in the settings.

    1 to 100 ASCII addresses without display names. `subject`: up to 250 characters; by default one line about the event.
    Raises DagError otherwise.
    """

    def __init__(self, *to: str, subject: str = "") -> None:
        try:
            self.receiver = msgspec.convert({"kind": "email", "to": to, "subject": subject}, EmailReceiver)
        except msgspec.ValidationError:
            written = ", ".join(f"{address!r:.100}" for address in to)
            hint = "write addresses like 'ops@example.org', in ASCII and without names, and a subject of 250 characters at most"
            raise DagError(f"Email({written}): {hint}") from None


class Webhook:
    """A signed HTTP POST of the event as JSON: `Webhook("https://example.org/hook")`. The secret is one of the settings.

    `body`: JSON to send in its place, such as `{"text": "{headline} {url}"}` for a chat. Its texts may have the names
    `tidegate.schemas.notice.PLACEHOLDERS` in braces.

    Raises DagError for a URL that is not http or https, or not ASCII, and for a body that is no JSON or has other names.
    """

    def __init__(self, url: str, *, body: dict[str, Any] | None = None) -> None:
        problem = f"Webhook({url!r:.100}): write an address like 'https://example.org/hook', in ASCII"
        try:
            self.receiver = msgspec.convert({"kind": "webhook", "url": url, "body": _body(url, body)}, WebhookReceiver)
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            raise DagError(problem) from None
        if not host or port == 0:
            raise DagError(problem)


def _body(url: str, body: object) -> str:
    """The body of a webhook as JSON; empty for that of the context. Raises DagError."""
    where = f"Webhook({url!r:.100}): body"
    if body is None:
        return ""
    if not isinstance(body, dict):
        raise DagError(f'{where} is a dict like {{"text": "{{headline}} {{url}}"}}, not {body!r:.100}')
    try:
        text = msgspec.json.encode(body).decode()
    except (TypeError, ValueError, RecursionError) as error:
        raise DagError(f"{where} is no JSON: {error}") from None
    if unknown := unknown_placeholders(text):
        known = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
        raise DagError(f"{where} has {{{unknown[0]}}}{did_you_mean(unknown[0], PLACEHOLDERS) or f'; there are {known}'}")
    return text


class Deadline:
    """The time by which a run or a task must have ended, in any state. A miss calls `on_deadline`; it stops nothing.

    `name`: 1 to 250 characters, unique in its DAG or task. Exactly one of `after` and `at`:
    `after`: a duration above 0 and up to ten years, counted from the run's logical date (`since="logical_date"`, the default; a
    run without one counts from its `run_after`) or from its queueing (`since="queued_at"`).
    `at`: a time of day in the DAG's time zone, on the day of the logical date, or on the next day if that time had passed.
    Raises DagError otherwise.
    """

    def __init__(
        self,
        name: str,
        *,
        after: timedelta | None = None,
        since: DeadlineSince = "logical_date",
        at: time | None = None,
    ) -> None:
        where = f"Deadline({name!r:.100})"
        spec = {"name": name, "after_s": after_or_at(where, after, at), "since": since, "at": at}
        try:
            self.spec = msgspec.convert(spec, DeadlineSpec)
        except ValueError:
            raise DagError(f"{where}: it needs a name of 1 to 250 characters, and since='logical_date' or 'queued_at'") from None


Receivers = Email | Webhook | CallbackFunction | Sequence[Email | Webhook | CallbackFunction]


class CallbackOption(NamedTuple):
    """A serialised callback, and its Python function where it calls one."""

    callback: Callback
    function: CallbackFunction | None


CALLBACK_OPTIONS = tuple(f"on_{on}" for on in On)
"""The options of DAGs and tasks that name receivers."""


class DagCallbacks:
    """The callback functions of a DAG by name, and the time zone of its deadlines.

    A spec holds only the name of a function; the process that calls it looks it up here after parsing the file again.
    """

    def __init__(self, timezone: str) -> None:
        self.timezone = timezone
        self.functions: dict[str, CallbackFunction] = {}

    def serialise(self, where: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        """`fields` with one `callbacks` in place of all `on_…`, and deadlines in the DAG's time zone. Raises DagError."""
        serialised = {field: value for field, value in fields.items() if field not in CALLBACK_OPTIONS}
        options: list[CallbackOption] = [option for name in CALLBACK_OPTIONS for option in fields.get(name, ())]
        for option in options:
            self._register(where, option)
        if options:
            serialised["callbacks"] = tuple(option.callback for option in options)
        if "deadlines" in serialised:
            serialised["deadlines"] = tuple(self._in_time_zone(spec) for spec in serialised["deadlines"])
        return serialised

    def _register(self, where: str, option: CallbackOption) -> None:
        receiver, function = option.callback.receiver, option.function
        if not isinstance(receiver, FunctionReceiver) or function is None:
            return
        if self.functions.setdefault(receiver.name, function) is not function:
            raise DagError(f"{where}: two callbacks are called {receiver.name!r}; each function of a DAG needs a name of its own")

    def _in_time_zone(self, spec: DeadlineSpec) -> DeadlineSpec:
        return spec if spec.at is None else msgspec.structs.replace(spec, timezone=self.timezone)


def deadline_specs(where: str, option: str, value: object) -> tuple[DeadlineSpec, ...]:
    """The value of `deadlines`. Raises DagError."""
    if not isinstance(value, list | tuple) or not all(isinstance(deadline, Deadline) for deadline in value):
        raise DagError(f"{where}: {option} is a list like [Deadline('by nine', at=time(9, 0))], not {value!r:.100}")
    names = [deadline.spec.name for deadline in value]
    if repeated := [name for name in names if names.count(name) > 1]:
        raise DagError(f"{where}: two deadlines are called {repeated[0]!r}; each needs a name of its own")
    return tuple(deadline.spec for deadline in value)


def callback_options(where: str, option: str, value: object) -> tuple[CallbackOption, ...]:
    """The value of an `on_…` option: a receiver, a list of them, or None. Raises DagError."""
    on = On(option.removeprefix("on_"))
    receivers = value if isinstance(value, list | tuple) else () if value is None else (value,)
    return tuple(_callback_option(f"{where}: {option}", on, receiver) for receiver in receivers)


def dag_time_zone(timezone: str, timetable: Timetable | None) -> str:
    """The time zone of a DAG's times of day: its own, else that of its timetable."""
    return timezone if timezone != "UTC" or not isinstance(timetable, Cron | Every) else timetable.timezone


def _callback_option(where: str, on: On, receiver: Any) -> CallbackOption:
    if isinstance(receiver, Email | Webhook):
        return CallbackOption(Callback(on, receiver.receiver), None)
    if not callable(receiver) or isinstance(receiver, type):
        raise DagError(
            f"{where} takes Email(…), Webhook(…), a function of the DAG file, or a list of them, not {receiver!r:.100}"
        )
    return CallbackOption(Callback(on, FunctionReceiver(_function_name(where, receiver))), receiver)


def _function_name(where: str, function: Any) -> str:
    """The name by which a function can be found at the top level of its file. Raises DagError."""
    name = str(getattr(function, "__name__", ""))
    if not name.isidentifier() or getattr(function, "__qualname__", name) != name:
        raise DagError(
            f"{where}: {function!r:.100} is no function at the top level of the file, where it can be found by its name"
        )
    callable_with(where, function, "context", name=name)
    return name
