"""Perform the effects of a batch type by type, in the global lock order, each type with one statement however many there are."""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.dag import (
    AdoptDag,
    ClearImportError,
    ConsumeEvents,
    CountFailures,
    DeleteDag,
    DescribeDataset,
    DiscardEvents,
    MarkStale,
    NoteSchedule,
    RecordFile,
    RecordImportError,
    SetClock,
    SetPaused,
    SetReferences,
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
from tidegate.schemas.queries import dags, datasets, files, outbox, references, runs, tasks
from tidegate.schemas.queries.db import Db, columns
from tidegate.schemas.queries.sql import named


class Plain(msgspec.Struct, frozen=True):
    """The statement `topic.name`, with the columns of the effects as its arguments.

    It is executed together with others, or, where it reads other tables or writes more than one, `at_once`.
    """

    statement: str
    at_once: bool = False

    async def __call__(self, db: Db, effects: Sequence[Any]) -> None:
        execute = db.execute if self.at_once else db.write
        await execute(named(self.statement), *columns(effects))


Perform = Callable[[Db, Any], Awaitable[None]]

PERFORM: Sequence[tuple[tuple[type, ...], Perform]] = (
    ((RecordFile,), Plain("files.record_files", at_once=True)),
    ((RecordImportError,), Plain("files.record_errors", at_once=True)),
    ((ClearImportError,), Plain("files.clear_errors", at_once=True)),
    ((SetPaused,), Plain("dags.set_paused", at_once=True)),
    ((CountFailures,), Plain("dags.count_failures", at_once=True)),
    ((SetClock,), Plain("dags.set_clock", at_once=True)),
    ((StoreVersion,), files.store),
    ((SetReferences,), references.replace),
    ((DescribeDataset,), Plain("datasets.describe_datasets", at_once=True)),
    ((AdoptDag,), Plain("files.adopt", at_once=True)),
    ((MarkStale,), Plain("files.mark_stale", at_once=True)),
    ((DeleteDag,), references.delete),
    ((NoteSchedule,), dags.note),
    ((ConsumeEvents,), datasets.consume),
    ((DiscardEvents,), datasets.discard),
    ((InsertRun,), runs.insert),
    ((UpdateRun,), Plain("runs.update_runs")),
    ((RunMoved,), runs.log),
    ((ChangeVersion,), runs.change_version),
    ((PlaceTask,), Plain("tasks.place_tasks")),
    ((InsertTask,), Plain("tasks.insert_tasks")),
    ((UpdateTask,), Plain("tasks.update_tasks")),
    ((MoveTask,), Plain("tasks.move_tasks")),
    ((Reconsider,), Plain("runs.reconsider")),
    ((ReconsiderAfter,), Plain("runs.reconsider_after", at_once=True)),
    ((CountAdmitted,), Plain("pools.count_admitted")),
    ((InsertSubmission,), Plain("submissions.insert_submissions")),
    ((KillSubmissions,), Plain("submissions.kill")),
    ((AcceptSubmission,), Plain("submissions.accept")),
    ((EndSubmission,), Plain("submissions.end_submissions")),
    ((DropResult,), Plain("tasks.drop_results")),
    ((StoreResult,), tasks.store_results),
    ((InsertDeadline,), Plain("deadlines.insert_deadlines")),
    ((MeetDeadlines,), Plain("deadlines.meet_deadlines")),
    ((MissDeadline,), Plain("deadlines.miss_deadlines")),
    ((Notify,), Plain("notifications.insert_notifications")),
    ((IgnoreFinish,), Plain("inbox.insert_ignored_finishes")),
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
