"""The kinds of work that a transaction makes for the duties, which are woken for them."""

from collections.abc import Callable, Mapping, Sequence
from enum import Flag, auto
from operator import attrgetter
from typing import Any

from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.backfill import InsertBackfill, NotifyBackfill, UpdateBackfill, WakeBackfills
from tidegate.schemas.effect.dag import DeferDag, ReleaseDag, StoreVersion, UpdateSchedule, WakeDag
from tidegate.schemas.effect.deadline import InsertDeadline, Notify
from tidegate.schemas.effect.run import ChangeVersion, InsertRun, Reconsider, ReconsiderAfter, RunMoved, UpdateRun
from tidegate.schemas.effect.submission import AcceptSubmission, DeferEnd, InsertSubmission
from tidegate.schemas.effect.task import AdmitAgain, InsertTask, OutletUpdated, TaskMoved, UpdateTask


class Work(Flag):
    """Kinds of work, one per duty."""

    NONE = 0
    ADMIT = auto()
    DISPATCH = auto()
    RELAY = auto()
    RECONSIDER = auto()
    CLOCK = auto()
    NOTIFY = auto()


def work_of(effects: Sequence[Effect]) -> Work:
    """The work that these effects make."""
    work = Work.NONE
    for type_ in {type(effect) for effect in effects}:
        work |= WORK.get(type_, Work.NONE)
    timed = any(moment(effect) is not None for effect in effects if (moment := MOMENTS.get(type(effect))))
    return work | Work.CLOCK if timed else work


MOMENTS: Mapping[type, Callable[[Any], Any]] = {
    UpdateBackfill: attrgetter("due_at"),
    UpdateTask: attrgetter("instance.next_try_at"),
    AcceptSubmission: attrgetter("times_out_at"),
    InsertRun: attrgetter("times_out_at"),
    UpdateRun: attrgetter("times_out_at"),
    ChangeVersion: attrgetter("times_out_at"),
}
"""Effects with a due time, which may be earlier than the next wake-up of the clock."""

WORK: Mapping[type, Work] = {
    InsertTask: Work.ADMIT,
    UpdateTask: Work.ADMIT,
    AdmitAgain: Work.ADMIT,
    UpdateSchedule: Work.CLOCK,
    InsertDeadline: Work.CLOCK,
    Notify: Work.NOTIFY,
    StoreVersion: Work.CLOCK,
    WakeDag: Work.CLOCK,
    DeferDag: Work.CLOCK,
    DeferEnd: Work.CLOCK,
    ReleaseDag: Work.CLOCK,
    Reconsider: Work.RECONSIDER,
    ReconsiderAfter: Work.RECONSIDER,
    InsertSubmission: Work.DISPATCH,
    InsertBackfill: Work.CLOCK,
    NotifyBackfill: Work.CLOCK,
    WakeBackfills: Work.CLOCK,
    RunMoved: Work.RELAY,
    TaskMoved: Work.RELAY,
    OutletUpdated: Work.RELAY,
}
