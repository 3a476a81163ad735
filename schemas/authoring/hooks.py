"""Deadlines, and who is told of what becomes of runs and tasks, as authors of DAG files write them."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from datetime import time, timedelta
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

import msgspec

from tidegate.schemas.error import DagError
from tidegate.schemas.notice import CallbackContext
from tidegate.schemas.receiver import (
    LONGEST_S,
    Callback,
    DeadlineSpec,
    EmailReceiver,
    FunctionReceiver,
    On,
    WebhookReceiver,
)
from tidegate.schemas.timetable.spec import Cron, Every, Timetable
from tidegate.schemas.timetable.wallclock import zone

CallbackFunction = Callable[[CallbackContext], object]


class Email:
    """One mail to all of these addresses: `Email("ops@example.org")`. Needs an SMTP server in the settings."""

    def __init__(self, *to: str, subject: str = "") -> None:
        try:
            self.receiver = msgspec.convert({"kind": "email", "to": to, "subject": subject}, EmailReceiver)
        except msgspec.ValidationError:
            written = ", ".join(f"{each!r:.100}" for each in to)
            hint = "write addresses like 'ops@example.org', in ASCII and without names, and a subject of 250 characters at most"
            raise DagError(f"Email({written}): {hint}") from None


class Webhook:
    """A POST to this address, signed with the secret in the settings: `Webhook("https://example.org/hook")`."""

    def __init__(self, url: str) -> None:
        problem = f"Webhook({url!r:.100}): write an address like 'https://example.org/hook', in ASCII"
        try:
            self.receiver = msgspec.convert({"kind": "webhook", "url": url}, WebhookReceiver)
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            raise DagError(problem) from None
        if not host or port == 0:
            raise DagError(problem)


class Deadline:
    """By when a run or a task is to have ended, in whatever state.

    Either so long `after` the logical date of the run (`since="logical_date"`; a run without one counts from its `run_after`) or
    after it was queued (`since="queued_at"`), or `at` a time of day in the DAG's time zone: on the day of the logical date, or
    the next day where it is earlier than that.
    """

    def __init__(
        self,
        name: str,
        *,
        after: timedelta | None = None,
        since: Literal["logical_date", "queued_at"] = "logical_date",
        at: time | None = None,
    ) -> None:
        where = f"Deadline({name!r:.100})"
        if (after is None) == (at is None):
            raise DagError(f"{where}: write either after=timedelta(hours=1) or at=time(9, 0)")
        if after is not None and not isinstance(after, timedelta):
            raise DagError(f"{where}: after must be a timedelta like timedelta(hours=1), not {after!r:.100}")
        if after is not None and not timedelta() < after <= timedelta(seconds=LONGEST_S):
            raise DagError(f"{where}: after must be longer than 0, and ten years at most")
        if at is not None and (not isinstance(at, time) or at.tzinfo is not None):
            raise DagError(f"{where}: at must be a time without a zone like time(9, 0), not {at!r:.100}; it is in the DAG's")
        spec = {"name": name, "after_s": after and after.total_seconds(), "since": since, "at": at}
        try:
            self.spec = msgspec.convert(spec, DeadlineSpec)
        except msgspec.ValidationError:
            raise DagError(f"{where}: it needs a name of 1 to 250 characters, and since='logical_date' or 'queued_at'") from None


Receivers = Email | Webhook | CallbackFunction | Sequence[Email | Webhook | CallbackFunction]


class Hook(NamedTuple):
    """Somebody is told of something; a Python function comes along."""

    callback: Callback
    function: CallbackFunction | None


HOOKS = tuple(f"on_{on}" for on in On)
"""The options that say who is told."""


class Hooks:
    """Who is told in a DAG: the functions among them by their names, by which they are found again where they run."""

    def __init__(self, timezone: str) -> None:
        self.timezone = timezone
        self.functions: dict[str, CallbackFunction] = {}

    def serialised(self, where: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        """The fields with `callbacks` for all `on_…`, and with deadlines by the DAG's clocks. Raises DagError."""
        kept = {field: value for field, value in fields.items() if field not in HOOKS}
        told: list[Hook] = [hook for option in HOOKS for hook in fields.get(option, ())]
        for hook in told:
            self._register(where, hook)
        if told:
            kept["callbacks"] = tuple(hook.callback for hook in told)
        if "deadlines" in kept:
            kept["deadlines"] = tuple(self._zoned(where, spec) for spec in kept["deadlines"])
        return kept

    def _register(self, where: str, hook: Hook) -> None:
        receiver, function = hook.callback.receiver, hook.function
        if not isinstance(receiver, FunctionReceiver) or function is None:
            return
        if self.functions.setdefault(receiver.name, function) is not function:
            raise DagError(f"{where}: two callbacks are called {receiver.name!r}; each function of a DAG needs a name of its own")

    def _zoned(self, where: str, spec: DeadlineSpec) -> DeadlineSpec:
        if spec.at is None:
            return spec
        try:
            zone(self.timezone)
        except ValueError as error:
            raise DagError(f"{where}: {error}") from None
        return msgspec.structs.replace(spec, timezone=self.timezone)


def deadlines(where: str, option: str, value: object) -> tuple[DeadlineSpec, ...]:
    """Raises DagError."""
    if not isinstance(value, list | tuple) or not all(isinstance(each, Deadline) for each in value):
        raise DagError(f"{where}: {option} is a list like [Deadline('by nine', at=time(9, 0))], not {value!r:.100}")
    names = [each.spec.name for each in value]
    if repeated := [name for name in names if names.count(name) > 1]:
        raise DagError(f"{where}: two deadlines are called {repeated[0]!r}; each needs a name of its own")
    return tuple(each.spec for each in value)


def hooks(where: str, option: str, value: object) -> tuple[Hook, ...]:
    """Who is told of what `option` names: one receiver or a list; None for nobody. Raises DagError."""
    on = On(option.removeprefix("on_"))
    listed = value if isinstance(value, list | tuple) else () if value is None else (value,)
    return tuple(_hook(f"{where}: {option}", on, each) for each in listed)


def clock_of(timezone: str, timetable: Timetable | None) -> str:
    """The time zone of a DAG: the one it names, else that of its timetable."""
    return timezone if timezone != "UTC" or not isinstance(timetable, Cron | Every) else timetable.timezone


def _hook(where: str, on: On, value: Any) -> Hook:
    if isinstance(value, Email | Webhook):
        return Hook(Callback(on, value.receiver), None)
    if not callable(value) or isinstance(value, type):
        raise DagError(f"{where} takes Email(…), Webhook(…), a function of the DAG file, or a list of them, not {value!r:.100}")
    return Hook(Callback(on, FunctionReceiver(_checked(where, value))), value)


def _checked(where: str, function: Any) -> str:
    """The name of a function that can be found again by it and called with the context. Raises DagError."""
    name = str(getattr(function, "__name__", ""))
    if not name.isidentifier() or getattr(function, "__qualname__", name) != name:
        raise DagError(
            f"{where}: {function!r:.100} is no function at the top level of the file, where it can be found by its name"
        )
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise DagError(f"{where}: {name} must be a plain function, neither async nor a generator")
    signature = inspect.signature(function)
    try:
        signature.bind("context")
    except TypeError:
        raise DagError(f"{where}: {name} is called with (context), but its parameters are {signature}") from None
    return name
