"""Functions of the schema that name expressions."""

import re

import pytest

from tests.integration.queries.blocks import Connection
from tidegate.schemas.graph import MAX_ELEMENTS, MAX_TASKS, element_index, element_of, label, position_of

INDICES = (0, 5, MAX_TASKS - 1, element_index(0, 0), element_index(3, 7), element_index(MAX_TASKS - 1, MAX_ELEMENTS - 1))
NAMES = """
    SELECT is_task(index), map_index(index), task_position(index), instance_name('t', index)
    FROM unnest($1::integer[]) WITH ORDINALITY AS given (index, place) ORDER BY place
"""
GIVEN_COLUMNS = """
    SELECT attname FROM pg_attribute
    WHERE attrelid = 'dataset_event'::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
"""
KEPT_COLUMNS = r"'INSERT INTO dataset_event_kept \(([\w, ]+)\)'\s+'SELECT ([\w, ]+) FROM %I WHERE"


async def test_the_names_of_instances_are_those_of_the_graph(connection: Connection) -> None:
    rows = await connection.fetch(NAMES, [-7, *INDICES])

    expected = [(element_of(it) is None, element_of(it), position_of(it), label("t", it)) for it in INDICES]
    assert [tuple(row) for row in rows] == [(False, None, -7, "t"), *expected]


async def test_a_month_that_retires_keeps_all_columns_of_its_events(connection: Connection) -> None:
    columns = await connection.fetch(GIVEN_COLUMNS)
    retires = await connection.fetchval("SELECT pg_get_functiondef('retire_ledger_month'::regproc)")

    ((inserted, selected),) = re.findall(KEPT_COLUMNS, retires)
    assert sorted(inserted.split(", ")) == sorted(name for (name,) in columns)
    assert selected == inserted


async def test_an_index_serves_the_name_of_its_predicate(connection: Connection) -> None:
    async with connection.transaction():
        await connection.execute("SET LOCAL enable_seqscan = off")
        plan = await connection.fetch("EXPLAIN SELECT id FROM backfill WHERE backfill_is_active(state)")

    assert "backfill_active" in str(plan)


@pytest.mark.parametrize(
    ("call", "table"),
    [
        ("is_task(task_index)", "task_instance"),
        ("map_index(task_index)", "task_instance"),
        ("task_position(task_index)", "task_instance"),
        ("instance_name(task_id, task_index)", "task_instance"),
        ("backfill_is_active(state)", "backfill"),
    ],
)
async def test_a_plan_has_the_expression_instead_of_its_name(connection: Connection, call: str, table: str) -> None:
    plan = await connection.fetch(f"EXPLAIN (VERBOSE) SELECT {call} FROM {table}")

    assert call.partition("(")[0] not in str(plan)
