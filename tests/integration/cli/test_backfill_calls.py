"""The calls of `tidegate.daemon.backfills`, as an HTTP API makes them: a user as a plain value, and reasons of refusals."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from anyio import from_thread

from tests.integration.cli.history import History
from tidegate.daemon import backfills
from tidegate.daemon.permissions import Caller, Role
from tidegate.daemon.postgres.database import Database, connect
from tidegate.daemon.settings import Settings
from tidegate.handlers.backfills.dates import next_ticks
from tidegate.schemas.backfill import MAX_DESCRIPTION, MAX_LISTED_DATES, BackfillSpec, Reprocess
from tidegate.schemas.error import RequestError
from tidegate.schemas.state import BackfillState
from tidegate.schemas.timetable.tick import Tick

ANN, BEN = Caller("ann", Role.ADMIN), Caller("ben@host", Role.EDITOR)
SETTINGS = Settings(postgres_dsn="", kafka_servers="", editors='{"private": ["ben"]}')
SPEC = BackfillSpec(dag_id="daily", start_date=datetime(2013, 1, 1, tzinfo=UTC), end_date=datetime(2013, 1, 6, tzinfo=UTC))
LATER = {"start_date": datetime(2113, 1, 1, tzinfo=UTC), "end_date": datetime(2113, 1, 2, tzinfo=UTC)}
FILE = """
from tidegate import Dag, cron
for name in ("daily", "private"):
    with Dag(name, schedule=cron("0 6 * * *"), run_immediately=False) as dag:
        dag.command("first", ["true"])
"""


@pytest.fixture
async def database(history: History, dsn: str) -> AsyncIterator[Database]:
    await history.file(FILE)
    async with connect(dsn, writer="ann") as database:
        yield database


def spec(**facts: Any) -> BackfillSpec:
    return msgspec.structs.replace(SPEC, **facts)


async def refusal(call: Awaitable[object]) -> str:
    with pytest.raises(RequestError) as caught:
        await call
    return caught.value.reason


async def test_each_call_returns_the_backfill(database: Database) -> None:
    created = await backfills.create(database, SETTINGS, ANN, SPEC)

    paused = await backfills.pause(database, SETTINGS, ANN, created.id)
    resumed = await backfills.resume(database, SETTINGS, ANN, created.id)
    limits, end = {"max_active_runs": 3}, datetime(2013, 1, 9, tzinfo=UTC)
    changed = await backfills.change(database, SETTINGS, ANN, created.id, limits, end)
    cancelled = await backfills.cancel(database, SETTINGS, ANN, created.id, kills=True)

    assert [row.state for row in (created, paused, resumed, cancelled)] == [
        BackfillState.PLANNED,
        BackfillState.PAUSED,
        BackfillState.PLANNED,
        BackfillState.CANCELLING,
    ]
    assert (changed.max_active_runs, changed.end_date.day) == (3, 9)
    assert await backfills.get(database, created.id) == cancelled


async def test_a_preview_lists_dates_and_changes_nothing(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    def in_a_thread(*args: Any) -> Sequence[Tick]:
        from_thread.check_cancelled()  # raises RuntimeError in the thread of the event loop
        return next_ticks(*args)

    monkeypatch.setattr(backfills, "next_ticks", in_a_thread)

    found = await backfills.preview(database, SPEC, 2)

    assert ([date.action for date in found.dates], found.more) == (["create", "create"], True)
    assert await refusal(backfills.get(database, 1)) == "no_such_backfill"


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        pytest.param(spec(dag_id="private"), "forbidden", id="another editor"),
        pytest.param(spec(dag_id="nothing"), "no_such_dag", id="no DAG"),
        pytest.param(spec(pool="nowhere"), "no_such_pool", id="no pool"),
        pytest.param(spec(start_date=datetime(2013, 2, 1, tzinfo=UTC)), "invalid", id="an end before the start"),
        pytest.param(spec(logical_dates=(SPEC.start_date,) * (MAX_LISTED_DATES + 1)), "invalid", id="a long list"),
        pytest.param(spec(description="x" * (MAX_DESCRIPTION + 1)), "invalid", id="a long description"),
        pytest.param(spec(description="\0"), "invalid", id="a description that Postgres cannot store"),
        pytest.param(spec(max_active_runs=0), "invalid", id="a limit out of range"),
        pytest.param(spec(**LATER), "no_dates", id="future"),
    ],
)
async def test_a_refusal_has_a_reason(database: Database, asked: BackfillSpec, reason: str) -> None:
    assert await refusal(backfills.create(database, SETTINGS, ANN, asked)) == reason


@pytest.mark.parametrize("call", [backfills.pause, backfills.resume, backfills.cancel, backfills.retry, backfills.delete])
async def test_each_action_needs_the_right_and_a_backfill(
    database: Database, call: Callable[[Database, Settings, Caller, int], Awaitable[object]]
) -> None:
    row = await backfills.create(database, SETTINGS, BEN, spec(dag_id="private", reprocess=Reprocess.FAILED))

    assert await refusal(call(database, SETTINGS, ANN, row.id)) == "forbidden"
    assert await refusal(call(database, SETTINGS, BEN, 2**70)) == "no_such_backfill"
    if call in (backfills.resume, backfills.retry, backfills.delete):
        assert await refusal(call(database, SETTINGS, BEN, row.id)) == "not_possible"


@pytest.mark.parametrize("caller", [Caller("ann", Role.VIEWER), Caller("ann", Role.EDITOR, ("other_*",))])
async def test_the_rights_of_a_token_hold_here_too(database: Database, caller: Caller) -> None:
    assert await refusal(backfills.create(database, SETTINGS, caller, SPEC)) == "forbidden"


@pytest.mark.parametrize("limits", [{"max_active_runs": 0}, {"max_active_runs": None}, {"share": "much"}, {"nothing": 1}])
async def test_limits_are_checked(database: Database, limits: dict[str, Any]) -> None:
    row = await backfills.create(database, SETTINGS, ANN, SPEC)

    assert await refusal(backfills.change(database, SETTINGS, ANN, row.id, limits)) == "invalid"
