"""Perform the effects of a batch type by type, in the global lock order, each type with one statement whatever there is of it."""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.dag import (
    AdoptDag,
    ClearImportError,
    ConsumeEvents,
    CountFailures,
    DeleteDag,
    DiscardEvents,
    MarkStale,
    NoteSchedule,
    RecordFile,
    RecordImportError,
    SetClock,
    SetPaused,
    StoreVersion,
)
from tidegate.schemas.effect.deadline import InsertDeadline, MeetDeadlines, MissDeadline, Notify
from tidegate.schemas.effect.run import ChangeVersion, InsertRun, Reconsider, ReconsiderAfter, RunMoved, UpdateRun
from tidegate.schemas.effect.submission import AcceptSubmission, EndSubmission, IgnoreFinish, InsertSubmission, KillSubmissions
from tidegate.schemas.effect.task import (
    CountAdmitted,
    DropResult,
    InsertTask,
    MoveTask,
    OutletUpdated,
    PlaceTask,
    StoreResult,
    TaskMoved,
    UpdateTask,
)
from tidegate.schemas.queries import (
    dags,
    datasets,
    deadlines,
    files,
    inbox,
    notifications,
    outbox,
    pools,
    references,
    runs,
    submissions,
    tasks,
)
from tidegate.schemas.queries.db import Db

Perform = Callable[[Db, Any], Awaitable[None]]

PERFORM: Sequence[tuple[tuple[type, ...], Perform]] = (
    ((RecordFile,), files.record),
    ((RecordImportError,), files.record_errors),
    ((ClearImportError,), files.clear_errors),
    ((SetPaused,), dags.set_paused),
    ((CountFailures,), dags.count_failures),
    ((SetClock,), dags.set_clock),
    ((StoreVersion,), files.store),
    ((AdoptDag,), files.adopt),
    ((MarkStale,), files.mark_stale),
    ((DeleteDag,), references.delete),
    ((NoteSchedule,), dags.note),
    ((ConsumeEvents,), datasets.consume),
    ((DiscardEvents,), datasets.discard),
    ((InsertRun,), runs.insert),
    ((UpdateRun,), runs.update),
    ((RunMoved,), runs.log),
    ((ChangeVersion,), runs.change_version),
    ((PlaceTask,), tasks.place),
    ((InsertTask,), tasks.insert),
    ((UpdateTask,), tasks.update),
    ((MoveTask,), tasks.move),
    ((Reconsider,), runs.reconsider),
    ((ReconsiderAfter,), runs.reconsider_after),
    ((CountAdmitted,), pools.count_admitted),
    ((InsertSubmission,), submissions.insert),
    ((KillSubmissions,), submissions.kill),
    ((AcceptSubmission,), submissions.accept),
    ((EndSubmission,), submissions.end),
    ((DropResult,), tasks.drop_results),
    ((StoreResult,), tasks.store_results),
    ((InsertDeadline,), deadlines.insert),
    ((MeetDeadlines,), deadlines.meet),
    ((MissDeadline,), deadlines.miss),
    ((Notify,), notifications.insert),
    ((IgnoreFinish,), inbox.insert_ignored),
    ((RunMoved, TaskMoved, OutletUpdated), outbox.insert),
)
"""How each type of effect is performed, in the global lock order. Types of one line are performed together, in their order."""


async def perform(db: Db, effects: Sequence[Effect]) -> None:
    by_type: dict[type, list[Effect]] = defaultdict(list)
    for effect in effects:
        by_type[type(effect)].append(effect)
    for types, perform in PERFORM:
        group = by_type[types[0]] if len(types) == 1 else [effect for effect in effects if type(effect) in types]
        if group:
            await perform(db, group)
