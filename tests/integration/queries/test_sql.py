"""Every statement fits the migrated schema and the code that uses it."""

import re
from collections.abc import Mapping, Sequence

import asyncpg
import msgspec
import pytest

from tests.integration.queries.blocks import (
    BLOCKS,
    PERFORMED,
    TOPICS,
    Connection,
    made,
    module_of,
    names_in,
    written_in_modules,
)
from tests.sql_mutants.mutations import all_mutants
from tidegate.schemas.backfill import BackfillActivity, BackfillCapacity, BackfillView, EndedDate, ExistingRun, Retry, TaskCounts
from tidegate.schemas.effect.backfill import CloseDate, InsertDate, TakeRun
from tidegate.schemas.effect.dag import AdoptDag, CountFailures, RecordFile, RecordImportError, SetPaused, UpdateSchedule
from tidegate.schemas.effect.deadline import InsertDeadline, MissDeadline, Notify
from tidegate.schemas.effect.run import InsertRun, UpdateRun
from tidegate.schemas.effect.submission import AcceptSubmission, DeferEnd, IgnoreFinish, InsertSubmission
from tidegate.schemas.effect.task import InsertTask, MoveTask, SetTaskDemand, UpdateTask
from tidegate.schemas.explain.facts import AttemptFacts, OccupyingTask, RunFacts, TaskRow
from tidegate.schemas.notice import FailedTask
from tidegate.schemas.queries import datasets, run_pages, sql
from tidegate.schemas.queries.audit import EventPage
from tidegate.schemas.queries.backfill_pages import BackfillRow, DateRow, FailedDate, Pace, PoolShare, ScheduledTask, StageRow
from tidegate.schemas.queries.backfills import RewrittenOutlet
from tidegate.schemas.queries.credentials import Owner
from tidegate.schemas.queries.dags import UnreadDag
from tidegate.schemas.queries.dataset_pages import DatasetLine, Rhythm
from tidegate.schemas.queries.db import paths
from tidegate.schemas.queries.dead_letters import DeadLetterRow, DeadLetterStatus
from tidegate.schemas.queries.deadlines import MissedOfDag
from tidegate.schemas.queries.files import StoredDag
from tidegate.schemas.queries.grid import RunCells, StoredVersion, VersionRow
from tidegate.schemas.queries.idempotency import ClaimedKey
from tidegate.schemas.queries.inbox import DeferredEnd
from tidegate.schemas.queries.installation import Installation, TimedDag
from tidegate.schemas.queries.leases import JobRow
from tidegate.schemas.queries.ledger import Retired
from tidegate.schemas.queries.losses import ServerIdentity
from tidegate.schemas.queries.notifications import ClaimedNotification
from tidegate.schemas.queries.now import ExpectedDataset, FailedRun
from tidegate.schemas.queries.outbox import OutboxRow
from tidegate.schemas.queries.pending import QueuedEvent
from tidegate.schemas.queries.run_pages import RunEventRow, RunTaskRow, Steps
from tidegate.schemas.queries.submissions import AttemptRef
from tidegate.schemas.queries.system_pages import DaemonLine
from tidegate.schemas.run import ConsumedEvent
from tidegate.schemas.view import DagActivity, Instance, LockedDag, RunView, SubmissionView, WaitingTask
from tidegate.schemas.wire.dead_letter import DeadLetter
from tidegate.schemas.wire.event import Producer


def fields(type_: type[msgspec.Struct], **parts: Sequence[str]) -> Sequence[str]:
    """The columns that a row type is made of: its fields, or the `parts` of a field."""
    return [column for field in type_.__struct_fields__ for column in parts.get(field, (field,))]


MADE = dict(made())

TASK = ("task_id", "task_index")
PRODUCER = tuple(f"source_{name}" for name in Producer.__struct_fields__)
TICK = ("last_logical_date", "last_interval_start", "last_interval_end")

DECODED: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(
        ("runs.lock", "runs.lock_unread", "runs.lock_of_attempts", "runs.views", "dags.queued_runs", "backfills.queued_runs"),
        fields(RunView),
    ),
    "dags.lock_unread": ("dag_id", *UnreadDag._fields),
    **dict.fromkeys(("dags.lock", "facts.dag"), fields(LockedDag, graph=("dag_id", "version_id"), last_tick=TICK)),
    **dict.fromkeys(("tasks.instances", "tasks.of_runs", "tasks.without_elements"), ("dag_run_id", *fields(Instance, reason=()))),
    **dict.fromkeys(("pending.oldest", "pending.oldest_of_each"), ("target_dag_id", *QueuedEvent._fields)),
    "pending.arrived": ("target_dag_id", *QueuedEvent._fields, "extra"),
    "audit.page_of_events": EventPage._fields,
    **dict.fromkeys(("backfills.lock", "backfills.active_of"), fields(BackfillView)),
    "backfills.activity": ("id", *BackfillActivity._fields),
    "backfills.ended_dates": ("backfill_id", *EndedDate._fields[:-1], *fields(TaskCounts)),
    "backfills.retries": ("id", "ordinal", *Retry._fields[:-1], *fields(TaskCounts)),
    "backfills.rewritten": RewrittenOutlet._fields,
    "backfills.capacities": BackfillCapacity._fields,
    "backfills.runs_of_dates": ("dag_id", "logical_date", *ExistingRun._fields),
    **dict.fromkeys(
        ("backfills.replayed", "backfills.consumers"),
        ("backfill_id", "order_at", *ExistingRun._fields, "ordinal", "is_outdated"),
    ),
    "backfill_pages.scheduled": ScheduledTask._fields,
    "backfill_pages.stages": fields(StageRow),
    "backfill_pages.paces": ("id", *Pace._fields),
    "backfill_pages.pool_shares": fields(PoolShare),
    "backfill_pages.list": (*fields(BackfillRow), "ended_succeeded", "ended_failed"),
    "now.expected": ("has_more", *fields(ExpectedDataset)),
    **dict.fromkeys(("credentials.find", "credentials.redeem"), fields(Owner)),
    "backfill_pages.dates": fields(DateRow),
    "backfill_pages.failures": ("id", *fields(FailedDate, task=())),
    "datasets.list_datasets": fields(datasets.DatasetRow, last_event_at=(), interval_s=(), is_late=()),
    "dataset_pages.list": fields(DatasetLine, rhythm=()),
    "dataset_pages.rhythm": ("uri", *fields(Rhythm)),
    "sources.events": fields(ConsumedEvent),
    **dict.fromkeys(("datasets.events", "datasets.event", "datasets.made_by_runs"), fields(datasets.EventRow, producer=PRODUCER)),
    "dags.activity": ("dag_id", *fields(DagActivity, low_watermark=(), settled=())),
    **dict.fromkeys(("dead_letters.list_dead_letters", "dead_letters.open_of"), fields(DeadLetterRow)),
    "dead_letters.status": fields(DeadLetterStatus),
    "facts.attempt": fields(AttemptFacts),
    "facts.occupying": fields(OccupyingTask, task=TASK, slots=("pool_slots",), since=("start_date",)),
    "facts.run_facts": fields(RunFacts, view=fields(RunView), backfill=(), inactive=()),
    "facts.task_row": fields(TaskRow),
    "files.stored_dags": fields(StoredDag),
    "grid.cells": RunCells._fields,
    "grid.version": fields(StoredVersion),
    "grid.current_version": fields(VersionRow),
    "idempotency.claim": fields(ClaimedKey),
    "inbox.deferred_ends": DeferredEnd._fields,
    "inbox.whole_dead_letters": ("id", *fields(DeadLetter)),
    "installation.read": fields(Installation),
    "installation.timed_dags": (*TimedDag._fields[:-1], *TICK),
    "leases.standing": ("daemons", "groups", "has_open_loss", "is_held", "owned"),
    "leases.live": fields(JobRow),
    "ledger.retire_month": fields(Retired),
    "losses.server_identity": fields(ServerIdentity),
    "notifications.claim": fields(ClaimedNotification),
    "deadlines.missed": fields(MissedOfDag),
    "now.failed": ("id", *fields(FailedRun, task=())),
    "outbox.next_outbox": fields(OutboxRow, is_replay=()),
    "run_pages.consumed": fields(run_pages.ConsumedEventRow, producer=PRODUCER),
    "run_pages.run_attempts": ("task_index", *fields(run_pages.RunAttemptRow)),
    "run_pages.run_events": fields(RunEventRow, producer=PRODUCER),
    "run_pages.run_tasks": ("task_index", *fields(RunTaskRow)[:-1]),
    "run_pages.steps": fields(Steps, task=TASK),
    "submissions.read_with_tasks": (
        "dag_run_id",
        *fields(Instance, reason=()),
        *fields(SubmissionView, dag_run_id=(), task_index=()),
    ),
    "submissions.refs": ("submission_id", *fields(AttemptRef)),
    "system_pages.daemons": fields(DaemonLine),
    "tasks.failures": ("id", *fields(FailedTask, map_index=("task_index",), log=("host", "log_path", "log_tail"))),
    "tasks.waiting": fields(WaitingTask),
}
"""The columns of the statements whose rows are not decoded as `Row(*row)` alone."""

UNPACKED = {
    "audit.check_outcomes",
    "audit.count_outcomes",
    "dag_pages.plans",
    "dead_letters.read",
    "inbox.record_batch",
    "inbox.recorded_ids",
    "pools.read_pool",
    "results.elements",
    "sources.contexts",
    "sources.modules",
    "starving.longest_waiting",
    "tasks.ready",
    "versions.graphs",
}
"""Wide statements whose columns are read by their names, or into names, and not into a row type."""

WIDE = 4
"""Columns from which on a row needs a row type."""

WRITTEN: Mapping[str, type[msgspec.Struct]] = {
    "runs.insert_runs": InsertRun,
    "runs.update_runs": UpdateRun,
    "tasks.insert_tasks": InsertTask,
    "tasks.update_tasks": UpdateTask,
    "tasks.move_tasks": MoveTask,
    "tasks.set_demand": SetTaskDemand,
    "dags.update_schedule": UpdateSchedule,
    "dags.count_failures": CountFailures,
    "submissions.insert_submissions": InsertSubmission,
    "submissions.accept": AcceptSubmission,
    "backfill_dates.insert": InsertDate,
    "backfill_dates.close": CloseDate,
    "backfills.take_runs": TakeRun,
    "deadlines.insert_deadlines": InsertDeadline,
    "deadlines.miss_deadlines": MissDeadline,
    "notifications.insert_notifications": Notify,
    "inbox.insert_ignored_finishes": IgnoreFinish,
    "inbox.defer_ends": DeferEnd,
    "files.record_files": RecordFile,
    "files.record_errors": RecordImportError,
    "files.adopt": AdoptDag,
    "dags.set_paused": SetPaused,
}
"""The statements that take an effect's fields by position."""


async def test_every_statement_prepares(connection: Connection) -> None:
    refused = {name: refusal for name, text in BLOCKS.items() if (refusal := await refusal_of(connection, text))}

    assert refused == {}


async def test_every_mutant_prepares(connection: Connection) -> None:
    """One that Postgres refuses would be noticed by any test."""
    refused = {mutant.name: refusal for mutant in all_mutants() if (refusal := await refusal_of(connection, mutant.sql))}

    assert refused == {}


def test_no_placeholder_is_quoted() -> None:
    """A quoted placeholder is a literal, not a parameter."""
    assert [name for name, text in BLOCKS.items() if "'$" in text] == []


@pytest.mark.parametrize("topic", TOPICS)
def test_every_statement_of_a_file_is_used_and_no_other(topic: str) -> None:
    performed = {name.partition(".")[2] for name in PERFORMED if name.startswith(f"{topic}.")}

    assert performed | set(names_in(module_of(topic))) == set(sql.load(topic))


DEFERRED = [*(name for name, act in PERFORMED.items() if not act.at_once), *written_in_modules(), "losses.mark"]
"""The statements that are executed together with others."""


@pytest.mark.parametrize("block", DEFERRED)
def test_a_statement_that_goes_with_others_writes_one_table_and_reads_no_other(block: str) -> None:
    """Statements of one WITH do not see what the others write."""
    statement = BLOCKS[block]
    table = sql.written(statement)

    assert re.findall(r"(?:INSERT INTO|(?<!DO )(?<!NO KEY )UPDATE|DELETE FROM) (\w+)", statement) == [table]
    assert set(re.findall(r"(?:\bFROM|\bJOIN|\bUSING) (\w+)", statement)) <= {"unnest", table}
    assert "RETURNING" not in statement


async def test_row_types_name_the_columns_they_are_made_of(connection: Connection) -> None:
    columns = {name: await columns_of(connection, pair.statement) for name, pair in MADE.items()}

    assert columns == {name: list(pair.row.__struct_fields__) for name, pair in MADE.items()}


@pytest.mark.parametrize(("block", "columns"), DECODED.items(), ids=DECODED)
async def test_decoded_rows_have_the_fields_of_their_row_types(
    connection: Connection, block: str, columns: Sequence[str]
) -> None:
    assert await columns_of(connection, BLOCKS[block]) == list(columns)


async def test_every_wide_row_is_compared_with_a_row_type(connection: Connection) -> None:
    wide = {name for name, text in BLOCKS.items() if len(await columns_of(connection, text)) >= WIDE}
    compared = {name for name, text in BLOCKS.items() if text in {pair.statement for pair in MADE.values()}}

    assert wide - compared - DECODED.keys() == UNPACKED


@pytest.mark.parametrize(("block", "effect"), WRITTEN.items(), ids=WRITTEN)
def test_a_statement_takes_an_effect_in_the_order_of_its_fields(block: str, effect: type[msgspec.Struct]) -> None:
    (names,) = re.findall(r"(?:INSERT INTO \w+|AS change) \(([^)]*)\)", BLOCKS[block])

    taken = [name.strip() for name in names.split(",")]

    fields = [{"index": "task_index"}.get(name, name) for name in (path.rpartition(".")[2] for path in paths(effect))]

    assert taken[: len(fields)] == fields


async def refusal_of(connection: Connection, statement: str) -> str | None:
    try:
        await connection.prepare(statement)
    except asyncpg.PostgresError as error:
        return str(error)
    return None


async def columns_of(connection: Connection, statement: str) -> list[str]:
    return [column.name for column in (await connection.prepare(statement)).get_attributes()]
