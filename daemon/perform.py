"""Perform the effects of a batch type by type, in the global lock order, each type with one statement however many there are."""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.audit import RecordAudit
from tidegate.schemas.effect.backfill import (
    CloseDate,
    DeleteBackfillDates,
    InsertBackfill,
    InsertDate,
    NotifyBackfill,
    OpenDate,
    PinVersion,
    RerunDate,
    RetryDates,
    SetBackfillLimits,
    TakeRun,
    UpdateBackfill,
    WakeBackfills,
)
from tidegate.schemas.effect.dag import (
    AdoptDag,
    ClearImportError,
    ConsumeEvents,
    CountFailures,
    DeferDag,
    DeleteDag,
    DeleteHistory,
    DescribeDataset,
    DiscardEvents,
    MarkStale,
    NoteSchedule,
    RecordAwaitedError,
    RecordFile,
    RecordImportError,
    ReleaseDag,
    SetPaused,
    SetReferences,
    StoreVersion,
    UpdateSchedule,
    WakeDag,
)
from tidegate.schemas.effect.deadline import InsertDeadline, MeetDeadlines, MissDeadline, Notify
from tidegate.schemas.effect.run import (
    AnnounceOutlets,
    ChangeVersion,
    InsertRun,
    Reconsider,
    ReconsiderAfter,
    RunMoved,
    UpdateRun,
)
from tidegate.schemas.effect.submission import (
    AcceptSubmission,
    DeferEnd,
    EndSubmission,
    IgnoreFinish,
    InsertSubmission,
    KeepEnd,
    KillSubmissions,
    TakeDeferredEnd,
)
from tidegate.schemas.effect.task import (
    CountAdmitted,
    DropResult,
    InsertTask,
    MoveTask,
    OutletUpdated,
    SetTaskDemand,
    StoreResult,
    TaskMoved,
    UpdateTask,
)
from tidegate.schemas.queries import (
    backfills,
    dag_history,
    dags,
    datasets,
    files,
    installation,
    outbox,
    references,
    runs,
    submissions,
    tasks,
)
from tidegate.schemas.queries.db import Db, columns
from tidegate.schemas.queries.sql import named
from tidegate.schemas.queries.unit_of_work import UnitOfWork


class Statement(msgspec.Struct, frozen=True):
    """The statement `topic.name`, with the columns of the effects as its arguments.

    It is combined with others, or, where it reads other tables or writes more than one, executed `at_once`. The last arguments of
    a `signed` statement are author, writer, cause and the time of the decision, then, if it `tells_request`, the request.
    """

    name: str
    columns: Callable[[Sequence[Any]], Sequence[Sequence[Any]]] = columns
    at_once: bool = False
    signed: bool = False
    tells_request: bool = False

    async def __call__(self, unit: UnitOfWork, effects: Sequence[Any]) -> None:
        args = (*self.columns(effects), *(unit.origin if self.signed else ()), *([unit.request] if self.tells_request else ()))
        if self.at_once:
            await (await unit.reader()).execute(named(self.name), *args)
        else:
            await unit.write(named(self.name), *args)


Perform = Statement | Callable[[Db, Any], Awaitable[None]]

PERFORM: Sequence[tuple[tuple[type, ...], Perform]] = (
    ((RecordFile,), Statement("files.record_files", at_once=True)),
    ((RecordImportError, RecordAwaitedError), Statement("files.record_errors", at_once=True)),
    ((ClearImportError,), Statement("files.clear_errors", at_once=True)),
    ((SetPaused,), Statement("dags.set_paused", at_once=True)),
    ((CountFailures,), Statement("dags.count_failures", at_once=True)),
    ((UpdateSchedule,), Statement("dags.update_schedule", at_once=True)),
    ((WakeDag,), Statement("dags.wake", at_once=True)),
    ((DeferDag,), Statement("dags.defer", at_once=True)),
    ((ReleaseDag,), Statement("dags.release", at_once=True)),
    ((StoreVersion,), files.store),
    ((SetReferences,), references.replace),
    ((DescribeDataset,), Statement("datasets.describe_datasets", at_once=True)),
    ((AdoptDag,), Statement("files.adopt", at_once=True)),
    ((MarkStale,), Statement("files.mark_stale", at_once=True)),
    ((DeleteHistory,), dag_history.delete),
    ((DeleteDag,), references.delete),
    ((InsertBackfill,), Statement("backfills.insert", backfills.new_columns, at_once=True, signed=True)),
    ((UpdateBackfill,), Statement("backfills.update", backfills.changed_columns)),
    ((PinVersion,), Statement("backfills.pin_version", at_once=True)),
    ((SetBackfillLimits,), Statement("backfills.set_limits", backfills.limit_columns, at_once=True)),
    ((WakeBackfills,), Statement("backfills.wake")),
    ((RetryDates,), Statement("backfill_dates.retry", at_once=True)),
    ((CloseDate,), Statement("backfill_dates.close", at_once=True)),
    ((RerunDate,), Statement("backfill_dates.rerun")),
    ((OpenDate,), Statement("backfill_dates.open")),
    ((InsertDate,), Statement("backfill_dates.insert")),
    ((DeleteBackfillDates,), Statement("backfill_dates.delete")),
    ((NoteSchedule,), Statement("dags.note_schedule", dags.note_columns, at_once=True)),
    ((ConsumeEvents,), Statement("datasets.consume", datasets.consumed_columns, at_once=True)),
    ((DiscardEvents,), datasets.discard),
    ((InsertRun,), Statement("runs.insert_runs", signed=True)),
    ((UpdateRun,), Statement("runs.update_runs")),
    ((TakeRun,), Statement("backfills.take_runs")),
    ((AnnounceOutlets,), Statement("runs.announce")),
    ((RunMoved,), Statement("runs.log_moves", runs.journal_columns)),
    ((ChangeVersion,), runs.change_version),
    ((SetTaskDemand,), Statement("tasks.set_demand")),
    ((InsertTask,), Statement("tasks.insert_tasks")),
    ((UpdateTask,), Statement("tasks.update_tasks")),
    ((MoveTask,), Statement("tasks.move_tasks")),
    ((Reconsider,), Statement("runs.reconsider")),
    ((ReconsiderAfter,), Statement("runs.reconsider_after", at_once=True)),
    ((CountAdmitted,), Statement("pools.count_admitted")),
    ((InsertSubmission,), Statement("submissions.insert_submissions")),
    ((KillSubmissions,), Statement("submissions.kill")),
    ((AcceptSubmission,), Statement("submissions.accept")),
    ((EndSubmission,), Statement("submissions.end_submissions", submissions.end_columns)),
    ((DropResult,), Statement("tasks.drop_results")),
    ((StoreResult,), Statement("tasks.store_results", tasks.result_columns)),
    ((InsertDeadline,), Statement("deadlines.insert_deadlines")),
    ((MeetDeadlines,), Statement("deadlines.meet_deadlines")),
    ((MissDeadline,), Statement("deadlines.miss_deadlines")),
    ((Notify,), Statement("notifications.insert_notifications")),
    ((KeepEnd,), Statement("installation.store_ends", installation.end_columns, at_once=True)),
    ((IgnoreFinish,), Statement("inbox.insert_ignored_finishes")),
    ((DeferEnd,), Statement("inbox.defer_ends")),
    ((TakeDeferredEnd,), Statement("inbox.take_deferred_ends")),
    ((NotifyBackfill,), Statement("backfill_dates.notify", at_once=True)),
    ((RecordAudit,), Statement("audit_log.record", signed=True, tells_request=True)),
    ((RunMoved, TaskMoved, OutletUpdated), Statement("outbox.insert_outbox", outbox.event_columns)),
)
"""How each type of effect is performed, in the global lock order. Types of one line are performed together, in their order."""


async def perform(unit: UnitOfWork, effects: Sequence[Effect]) -> None:
    by_type: dict[type, list[Effect]] = defaultdict(list)
    for effect in effects:
        by_type[type(effect)].append(effect)
    for types, act in PERFORM:
        group = by_type[types[0]] if len(types) == 1 else [effect for effect in effects if type(effect) in types]
        if group:
            await (act(unit, group) if isinstance(act, Statement) else act(await unit.reader(), group))
