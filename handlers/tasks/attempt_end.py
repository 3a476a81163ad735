"""The end of an attempt: the input of the state machine of tasks."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import msgspec
from msgspec import UNSET

from tidegate.schemas.graph import element_of
from tidegate.schemas.notice import LogExcerpt
from tidegate.schemas.run import MAX_PRODUCED_BYTES, MAX_PUBLISHED, MAX_RESULT_BYTES
from tidegate.schemas.state import TaskState
from tidegate.schemas.wire.event import MAX_LOG_TAIL, DatasetUpdated, TaskFinished, encode, storable
from tidegate.schemas.wire.json_text import has_nul

STATES = {
    "succeeded": TaskState.SUCCESS,
    "skipped": TaskState.SKIPPED,
    "failed": TaskState.FAILED,
    "killed": TaskState.FAILED,
    "lost": TaskState.FAILED,
}
"""The state that each outcome gives a task without retries left."""


class Produced(msgspec.Struct, frozen=True):
    """What an attempt that succeeded says about its data: the extra of each outlet by URI, and further dataset events."""

    submission_id: UUID
    outlets: Mapping[str, dict[str, Any]] = {}
    events: tuple[DatasetUpdated, ...] = ()


class AttemptEnd(msgspec.Struct, frozen=True):
    """An attempt of a task ended in `state`: success, failed or skipped.

    `none`: the task was cleared, and waits again. `scheduled`: the attempt was never submitted, and does not count as a try.
    `timed_out`: it ran longer than its task allows.
    `branches`: the task ids directly downstream that a branching task chose; `unchosen` of `branching.py` says which tasks are
    skipped.
    """

    index: int
    try_number: int
    state: TaskState
    reason: str = ""
    branches: tuple[str, ...] | None = None
    timed_out: bool = False
    produced: Produced | None = None
    log: LogExcerpt | None = None

    @property
    def choice(self) -> tuple[str, ...] | None:
        """The branches to follow. Only a task that succeeds chooses, and no instance of a mapped task does."""
        return self.branches if self.state is TaskState.SUCCESS and element_of(self.index) is None else None

    def is_retried(self, max_tries: int) -> bool:
        """Whether another try follows, so that downstream tasks keep waiting."""
        return self.state is TaskState.FAILED and self.try_number < max_tries


def attempt_end(finish: TaskFinished, index: int, try_number: int) -> AttemptEnd:
    """The end that an event reports, apart from kill requests and from decisions about the task in the meantime."""
    if finish.outcome == "succeeded" and (error := result_error(finish.result) or produced_error(finish)):
        return AttemptEnd(index, try_number, TaskState.FAILED, error)
    branches = None if finish.follow is UNSET else finish.follow
    return AttemptEnd(
        index,
        try_number,
        STATES[finish.outcome],
        storable(finish.reason),
        branches,
        produced=_produced(finish),
        log=excerpt_of(finish),
    )


def excerpt_of(finish: TaskFinished) -> LogExcerpt | None:
    """The end of the log of an attempt, as it can be stored."""
    log = finish.log or None
    if log is None:
        return None
    return LogExcerpt(host=storable(log.host)[:255], path=storable(log.path)[:4096], tail=storable(log.tail[-MAX_LOG_TAIL:]))


def _produced(finish: TaskFinished) -> Produced | None:
    outlets, events = finish.outlets or {}, finish.events or ()
    return Produced(finish.submission_id, outlets, events) if outlets or events else None


def result_error(result: Any) -> str:
    """Why a result cannot be stored; empty when it can, or when there is none."""
    content = b"" if result is UNSET else encode(result)
    if len(content) > MAX_RESULT_BYTES:
        return f"the task returned more than {MAX_RESULT_BYTES} bytes; write the data elsewhere and return its location"
    if has_nul(content):
        return "the task returned a NUL character, which cannot be stored"
    return ""


def produced_error(finish: TaskFinished) -> str:
    """Why the events of a success cannot be published; empty when they can. Each of them has to fit into a record."""
    outlets, events = finish.outlets or {}, finish.events or ()
    if len(events) > MAX_PUBLISHED:
        return f"the task published {len(events)} events; an attempt publishes at most {MAX_PUBLISHED}"
    if len(encode(outlets)) + len(encode(events)) > MAX_PRODUCED_BYTES:
        return f"the events of the task have more than {MAX_PRODUCED_BYTES} bytes; write the data elsewhere and give its location"
    return ""
