"""The content of a notification."""

import re
from datetime import datetime
from typing import Any
from urllib.parse import quote
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType

from tidegate.schemas.receiver import On
from tidegate.schemas.time_range import Moment


class MissedDeadline(msgspec.Struct, frozen=True, kw_only=True):
    """A run, or with a `task_id` one of its tasks, had not ended by then."""

    name: str
    due_at: Moment
    task_id: str | UnsetType = UNSET


class LogExcerpt(msgspec.Struct, frozen=True, kw_only=True):
    """The log of an attempt: its file on the host that ran the attempt, and the last lines."""

    host: str
    path: str
    tail: str


class FailedTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task, or with a `map_index` an instance of a mapped one, whose last attempt failed; a task that never ran has try 0."""

    task_id: str
    map_index: int | UnsetType = UNSET
    try_number: int
    reason: str
    log: LogExcerpt | UnsetType = UNSET

    @property
    def label(self) -> str:
        """Its name in the run, such as `load` or `load[3]`."""
        return instance_name(self.task_id, self.map_index)

    @property
    def title(self) -> str:
        """`task load[3], try 2`; `task load` for one that never ran."""
        return f"task {self.label}, try {self.try_number}" if self.try_number else f"task {self.label}"


class CallbackContext(msgspec.Struct, frozen=True, kw_only=True):
    """The argument of a callback. Times are in UTC.

    `state` is the new state of the task or, without a task, of the run; after a missed deadline the current state of the run.
    Late inputs of a DAG have no run. `id` is the same at every delivery of a notification to a receiver. An instance of a mapped
    task has a `map_index`. `log` is that of the attempt of a task; `failed_tasks` are the first that failed of a run. `url` is
    the page of the task, the run or the DAG, if the address of `tidegate web` is set.
    """

    on: On
    dag_id: str
    run_id: str | None
    run_type: str | None
    run_after: datetime | None
    logical_date: datetime | None
    state: str | None
    at: datetime
    reason: str = ""
    task_id: str | None = None
    map_index: int | None = None
    try_number: int | None = None
    deadline: MissedDeadline | None = None
    id: UUID | None = None
    log: LogExcerpt | None = None
    failed_tasks: tuple[FailedTask, ...] = ()
    url: str | None = None


PLACEHOLDERS = ("headline", "url", "on", "dag_id", "run_id", "task_id", "state", "reason", "at")
"""The names that a text of a webhook's body may have in braces, such as `{headline}`."""

_PLACEHOLDER = re.compile(r"\{(\w+)\}")


def filled(body: str, context: CallbackContext) -> Any:
    """The JSON body of a webhook with the facts of a notification in place of its `PLACEHOLDERS`; other braces stay.

    Raises msgspec.DecodeError for a text that is no JSON.
    """
    facts = {name: getattr(context, name, None) for name in PLACEHOLDERS} | {"headline": headline(context)}
    shown = {name: value.isoformat() if isinstance(value, datetime) else str(value or "") for name, value in facts.items()}

    def fill(part: Any) -> Any:
        match part:
            case str():
                return _PLACEHOLDER.sub(lambda found: shown.get(found[1], found[0]), part)
            case list():
                return [fill(each) for each in part]
            case dict():
                return {key: fill(value) for key, value in part.items()}
            case _:
                return part

    return fill(msgspec.json.decode(body))


def unknown_placeholders(text: str) -> list[str]:
    """The names in braces of a text of a body that are no `PLACEHOLDERS`."""
    return [name for name in _PLACEHOLDER.findall(text) if name not in PLACEHOLDERS]


def page_of(site: str, context: CallbackContext) -> str | None:
    """The page about a notification, on the site with this address; None without one."""
    if not site:
        return None
    task = instance_name(context.task_id, context.map_index) if context.run_id and context.task_id else None
    parts = {"dags": context.dag_id, "runs": context.run_id, "tasks": task}
    return site.rstrip("/") + "".join(f"/{name}/{quote(part, safe='')}" for name, part in parts.items() if part is not None)


def instance_name(task_id: str, map_index: int | UnsetType | None) -> str:
    """The name of a task instance in its run: `load`, or `load[3]` for an instance of a mapped task."""
    return f"{task_id}[{map_index}]" if isinstance(map_index, int) else task_id


def headline(context: CallbackContext) -> str:
    """One line for people: `daily: run r1, task load: try 2 failed, another one follows`."""
    if context.run_id is None:
        return f"{context.dag_id}: inputs were not there by the deadline"
    task = f", task {instance_name(context.task_id, context.map_index)}" if context.task_id else ""
    return f"{context.dag_id}: run {context.run_id}{task}: {_said(context)}"


def _said(context: CallbackContext) -> str:
    match context.on:
        case On.SUCCESS:
            return "succeeded"
        case On.FAILURE:
            return "failed"
        case On.RETRY:
            return f"try {context.try_number} failed, another one follows"
        case On.TIMEOUT:
            return "took too long"
        case On.DEADLINE:
            return f"missed the deadline {context.deadline.name!r}" if context.deadline else "missed a deadline"
