"""A row of the database that is damaged in one column: its DAG works, is held or fails, and another DAG goes on."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import timedelta
from typing import Any, NamedTuple

import asyncpg
import msgspec
from anyio.from_thread import BlockingPortal, start_blocking_portal
from hypothesis import strategies as st

from tests import servers
from tests.fuzz.doors.door import Door, Place
from tests.fuzz.small_world import SmallWorld, attempt_of, end_of, small_world
from tests.fuzz.values import RAW, SCALARS, VALUES, replaced
from tidegate.daemon.duties.clock import submit_due
from tidegate.handlers.explain.dag import explain_dag
from tidegate.handlers.explain.dag import load as load_explanation
from tidegate.schemas.error import DagFaultError
from tidegate.schemas.queries import dag_pages, holds
from tidegate.schemas.queries.db import Db
from tidegate.schemas.wire.event import Kind

RUNS = "dag_run_id IN (SELECT id FROM dag_run WHERE dag_id = 'bad')"
ROWS: Mapping[str, str] = {
    "dag": "dag_id = 'bad'",
    "dag_version": "dag_id = 'bad'",
    "dag_run": "dag_id = 'bad'",
    "task_instance": RUNS,
    "submission": RUNS,
    "task_result": RUNS,
    "deadline": RUNS,
    "notification": RUNS,
    "run_state_log": RUNS,
    "dataset_dag_run_queue": "target_dag_id = 'bad'",
    "dag_schedule_dataset_reference": "dag_id = 'bad'",
    "dag_schedule_pattern_reference": "dag_id = 'bad'",
    "task_outlet_dataset_reference": "dag_id = 'bad'",
    "schedule_note": "dag_id = 'bad'",
    "dataset_event": "dataset_id IN (SELECT id FROM dataset WHERE uri LIKE 's://t/%')",
    "dataset": "uri <> 's://a'",
    "pool": "name = 'small'",
    "dag_file": "path = 'bad.py'",
    "outbox": "true",
}
"""The rows of each table that belong to the damaged DAG."""

COLUMNS = """
    SELECT attname, format_type(atttypid, NULL), ARRAY(SELECT enumlabel FROM pg_enum WHERE enumtypid = atttypid)
    FROM pg_attribute WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum
"""
LITERALS: Mapping[str, Sequence[str]] = {
    "text": ("''", "'x'", "'ü'", "repeat('x', 5000)", "E'\\x1b[31m'", "'s://a'", "'good'", "'bad'", "'{\"'"),
    "integer": ("0", "-1", "1", "7", "2147483647", "-2147483648", "1048576", "1064961"),
    "double precision": ("0", "-1", "'NaN'", "'Infinity'", "1e308"),
    "smallint": ("0", "-1", "15", "32767"),
    "bigint": ("0", "-1", "1", "9223372036854775807", "-9223372036854775808", "999999"),
    "timestamp with time zone": (
        *("'infinity'", "'-infinity'", "'4713-01-01 BC'", "'294276-12-31Z'"),
        *("'0001-01-01Z'", "'1900-01-01Z'", "'2200-01-01Z'", "now()"),
    ),
    "boolean": ("true", "false"),
    "uuid": ("'00000000-0000-0000-0000-000000000000'", "gen_random_uuid()"),
    "bytea": ("''", "'\\x00ff'"),
}
PICK = "SELECT ctid, {column} FROM {table} WHERE {rows} ORDER BY ctid LIMIT 1 OFFSET $1"
COUNT = "SELECT count(*) FROM {table} WHERE {rows}"
SET = "UPDATE {table} SET {column} = {value} WHERE ctid = $1"


class Damage(NamedTuple):
    """What is done to one row. Numbers choose among what there is: a column, a row, a value of the type of the column."""

    table: str
    column: int
    row: int
    value: int
    path: list[int]
    json: Any


DAMAGES = st.builds(
    Damage,
    st.sampled_from(sorted(ROWS)),
    st.integers(0, 24),
    st.integers(0, 12),
    st.integers(0, 9),
    st.lists(st.integers(0, 30), max_size=5),
    SCALARS | VALUES | RAW,
)


class Opened(NamedTuple):
    """The world lives in the loop of the portal."""

    portal: BlockingPortal
    world: SmallWorld


@contextmanager
def world_of(place: Place) -> Iterator[Opened]:
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(_world(place)) as world:
        yield Opened(portal, world)


@asynccontextmanager
async def _world(place: Place) -> AsyncIterator[SmallWorld]:
    name = await servers.create_database(place.postgres, place.template)
    async with small_world(servers.dsn_of(place.postgres, name), place.home) as world:
        yield world
    await servers.drop_database(place.postgres, name)


def enter(damage: Damage, opened: Opened) -> None:
    opened.portal.call(_enter, damage, opened.world)


async def _enter(given: Damage, world: SmallWorld) -> None:
    async with world.undone():
        attempts = [await attempt_of(world, task_id) for task_id in ("first", "each")]
        runs = [id_ for (id_,) in await world.rows("SELECT id FROM dag_run WHERE dag_id = 'bad'")]
        if not await damage(world, given):
            return
        await world.take(Kind.TASK_FINISHED, *(end_of(attempt, result=[1]) for attempt in attempts))
        await world.take(Kind.DATASET_UPDATED, {"uri": "s://a"}, {"uri": "s://t/1", "extra": {"n": 3}})
        await world.work()
        await world.work()
        await world.sweep()
        world.clock.at += timedelta(hours=1)
        await submit_due(world.context)
        await check(world, runs)


async def damage(world: SmallWorld, given: Damage) -> bool:
    """Whether Postgres stores the damage."""
    columns = await world.rows(COLUMNS, given.table)
    column, type_, labels = columns[given.column % len(columns)]
    place = {"table": given.table, "column": f'"{column}"', "rows": ROWS[given.table]}
    count = (await world.rows(COUNT.format(**place)))[0][0]
    if not count:
        return False
    ((ctid, before),) = await world.rows(PICK.format(**place), given.row % count)
    value, arguments = _value(given, type_, labels, before)
    try:
        async with world.connection.transaction():
            await world.connection.execute(SET.format(**place, value=value), ctid, *arguments)
    except (asyncpg.PostgresError, asyncpg.DataError, msgspec.MsgspecError):
        return False
    return True


def _value(given: Damage, type_: str, labels: Sequence[str], before: Any) -> tuple[str, Sequence[Any]]:
    """An expression of SQL, and its arguments."""
    if type_ == "jsonb":
        return "$2::text::jsonb", [
            msgspec.json.encode(replaced(before, given.path, given.json, leave_out=given.value % 4 == 0)).decode()
        ]
    literals = [f"'{label}'" for label in labels] or [*LITERALS[type_]]
    return [*literals, "NULL"][given.value % (len(literals) + 1)], ()


async def check(world: SmallWorld, damaged: Sequence[int]) -> None:
    """The other DAG's runs have ended well, no server counts as away, and the list of DAGs can be read.

    A damage may have given one of the `damaged` runs to the other DAG.
    """
    runs = await world.rows("SELECT state::text FROM dag_run WHERE dag_id = 'good' AND id <> ALL($1) ORDER BY id", damaged)
    assert [state for (state,) in runs] == ["success"] * 3, runs
    assert not world.context.outages.away, world.context.outages.away
    await world.database.run(dag_pages.list_dags)
    await world.database.run(_explained)


async def _explained(db: Db) -> None:
    """Why the DAG has no run; for a held one, that is all there is to say.

    Python cannot read a time of the year 294276, which is then an error of this page.
    """
    with suppress(DagFaultError, OverflowError):
        if await holds.hold_of(db, "bad") is None:
            explain_dag(await load_explanation(db, "bad"))


DOOR = Door(DAMAGES, enter, share=10, surroundings=world_of, in_suite=10, needs_postgres=True)
