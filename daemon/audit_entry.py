"""The entry of the audit log for a request of a user, in the transaction of the change, and that for a refusal."""

from collections.abc import Mapping
from typing import Any

import msgspec

from tidegate.daemon.postgres.database import Database
from tidegate.schemas.effect.audit import OF_DAG, RecordAudit, object_name
from tidegate.schemas.message import (
    ClearRequested,
    DagDeleteRequested,
    PauseRequested,
    ReleaseRequested,
    RunEndRequested,
    RunRequested,
    RunsCancelled,
    TaskMarked,
)
from tidegate.schemas.queries import audit_log

RECORDED_BYTES = 4096
"""The largest request that the audit log keeps whole."""

WORDS = {"start": "since", "end": "until"}
"""The fields that the API and the commands name otherwise."""

UNSAID = {"user", "reason", "params", "portion", "only_if_active"}
"""The fields that the entry says otherwise, or that are no part of what the user asked for."""


def entry_of(request: object) -> RecordAudit | None:
    """None for a request that its handler records, as those about backfills."""
    does = _does(request)
    if does is None:
        return None
    fields = msgspec.to_builtins(request)
    asked = {WORDS.get(name, name): value for name, value in fields.items() if name not in {*dict(OF_DAG), *UNSAID}}
    return RecordAudit(does, object_name(OF_DAG, **fields), recorded(asked))


async def record_refusal(database: Database, who: str, object_: str, details: Mapping[str, Any]) -> None:
    """Write that the request of a user was refused, whose change was not done."""
    await database.run(audit_log.record, who, audit_log.REFUSED, object_, details)


_DONE: Mapping[type, str] = {
    RunRequested: "triggered a run",
    RunsCancelled: "cancelled runs",
    TaskMarked: "marked a task",
    ReleaseRequested: "released a DAG",
    DagDeleteRequested: "deleted a DAG",
}


def _does(request: object) -> str | None:
    match request:
        case ClearRequested():
            return clearing_text(only_failed=request.only_failed, newest_version=request.newest_version)
        case RunEndRequested():
            return "cancelled a run" if request.only_if_active else "marked a run"
        case PauseRequested():
            return pause_text(is_paused=request.is_paused)
        case _:
            return _DONE.get(type(request))


def clearing_text(*, only_failed: bool, newest_version: bool) -> str:
    """What a request has cleared, in words."""
    tasks = "failed tasks" if only_failed else "tasks"
    return f"cleared {tasks}, by the newest version" if newest_version else f"cleared {tasks}"


def pause_text(*, is_paused: bool) -> str:
    """What a request has done to a DAG, in words."""
    return "paused a DAG" if is_paused else "unpaused a DAG"


def recorded(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The body of a request; of a large one the size and the fields that fit, in their order."""
    size = len(msgspec.json.encode(fields))
    return {"body": dict(fields)} if size <= RECORDED_BYTES else {"body": _fitting(fields), "body_bytes": size}


def _fitting(fields: Mapping[str, Any]) -> dict[str, Any]:
    fitting, left = {}, RECORDED_BYTES
    for name, value in fields.items():
        size = len(msgspec.json.encode({name: value}))
        if size <= left:
            fitting[name], left = value, left - size
    return fitting
