"""Every statement fits the migrated schema and the code that uses it."""

import re
from collections.abc import Mapping

import asyncpg
import msgspec
import pytest

from tests.integration.queries.blocks import (
    BLOCKS,
    PERFORMED,
    TOPICS,
    Connection,
    Made,
    made,
    module_of,
    names_in,
    written_in_modules,
)
from tidegate.schemas.effect.dag import AdoptDag, CountFailures, RecordFile, RecordImportError, SetPaused, UpdateSchedule
from tidegate.schemas.effect.deadline import InsertDeadline, MissDeadline, Notify
from tidegate.schemas.effect.run import InsertRun, UpdateRun
from tidegate.schemas.effect.submission import AcceptSubmission, EndSubmission, IgnoreFinish, InsertSubmission
from tidegate.schemas.effect.task import InsertTask, MoveTask, SetTaskDemand, UpdateTask
from tidegate.schemas.queries import sql
from tidegate.schemas.queries.db import paths
from tidegate.schemas.view import Instance, RunView

MADE = {
    **dict(made()),
    "runs.lock": Made(RunView, BLOCKS["runs.lock"]),
    "dags._first_waiting": Made(RunView, BLOCKS["dags.queued_runs"]),
}

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
    "submissions.end_submissions": EndSubmission,
    "deadlines.insert_deadlines": InsertDeadline,
    "deadlines.miss_deadlines": MissDeadline,
    "notifications.insert_notifications": Notify,
    "inbox.insert_ignored_finishes": IgnoreFinish,
    "files.record_files": RecordFile,
    "files.record_errors": RecordImportError,
    "files.adopt": AdoptDag,
    "dags.set_paused": SetPaused,
}
"""The statements that take an effect's fields by position."""


async def test_every_statement_prepares(connection: Connection) -> None:
    refused = {name: refusal for name, text in BLOCKS.items() if (refusal := await refusal_of(connection, text))}

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


@pytest.mark.parametrize("block", ["tasks.instances", "tasks.of_runs"])
async def test_instances_are_made_of_their_run_and_their_fields(connection: Connection, block: str) -> None:
    columns = await columns_of(connection, BLOCKS[block])

    assert columns == ["dag_run_id", *Instance.__struct_fields__]


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
