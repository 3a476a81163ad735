"""A user clears or cancels a run while a daemon submits attempts of it: they end, and the other claims of the batch go on."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from structlog.testing import capture_logs

from tests.integration.cli.history import HOST
from tests.integration.engine.chains import clear, command, started
from tests.integration.engine.world import World, utc
from tests.integration.spark.dispatching import Daemon
from tests.servers import MakeSettings
from tidegate.daemon.duties import submission_specs
from tidegate.daemon.postgres.database import connect
from tidegate.schemas.dag import DagSpec
from tidegate.schemas.error import UnavailableError
from tidegate.schemas.graph import Graph
from tidegate.schemas.message import RunEndRequested, RunRequested
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.results import results_for
from tidegate.schemas.queries.submissions import Claimed
from tidegate.schemas.state import RunState
from tidegate.schemas.view import TaskKey

CANCELLED = "cancelled by me"
OTHER = "SELECT submission_id FROM submission JOIN dag_run AS run ON run.id = dag_run_id WHERE run.dag_id = 'other'"
ENDS = """
    SELECT attempt.state::text, attempt.reason FROM submission AS attempt JOIN dag_run AS run ON run.id = attempt.dag_run_id
    WHERE run.dag_id = 'd' AND attempt.ended_at IS NOT NULL AND attempt.state <> 'succeeded' ORDER BY attempt.submission_id
"""


@pytest.fixture
async def world(dsn: str) -> AsyncIterator[World]:
    async with connect(dsn) as database:
        yield World(database, utc(2024, 5, 1, 12, 10))


@pytest.fixture
async def daemon(settings: MakeSettings, world: World) -> Daemon:
    daemon = Daemon(settings(host=HOST, lease_ttl_s=60.0), world.database)
    await daemon.renew()
    return daemon


async def with_other(world: World) -> None:
    """A task of another DAG waits, too."""
    await world.file(DagSpec(dag_id="other", tasks=(command("a"),)), path="other.py")
    await world.tell(RunRequested(dag_id="other", run_id="r1", conf={}, logical_date=utc(2024, 4, 1)))
    await world.reconsider()
    await world.admit()


async def claimed(world: World, daemon: Daemon) -> Sequence[Claimed]:
    """The claims of two elements of a mapped task, and of a task of another DAG."""
    await started(world, command("list"), command("each", "list", over="list"))
    await world.work(result=[1, 2])
    await with_other(world)
    return (await daemon.dispatcher._claim(daemon.dispatcher._claim_intents)).claims


async def take_over(world: World, daemon: Daemon) -> None:
    """Another daemon takes over what the claimant did not get to."""
    other = Daemon(daemon.context.settings, world.database)
    await other.renew()
    await world.rows("UPDATE submission SET owner = NULL WHERE state = 'submitting'")
    batch = await other.dispatcher._claim(other.dispatcher._claim_abandoned)
    await other.dispatcher._resolve_batch(batch.claims)
    daemon.backend.given += other.backend.given


async def submit(world: World, daemon: Daemon, claims: Sequence[Claimed]) -> None:
    """The claimant goes on."""
    del world
    await daemon.dispatcher._submit_batch(claims)
    assert len(daemon.dispatcher.claims.ids) == len(daemon.backend.given)


async def others(world: World) -> list[UUID]:
    return [row[0] for row in await world.rows(OTHER)]


@pytest.mark.parametrize("is_taken_over", [False, True])
async def test_elements_whose_list_was_cleared_are_killed(world: World, daemon: Daemon, is_taken_over: bool) -> None:
    claims = await claimed(world, daemon)
    await clear(world, task_ids=("list",))

    await (take_over(world, daemon) if is_taken_over else submit(world, daemon, claims))

    assert daemon.backend.given == await others(world)
    assert await world.rows(ENDS) == [("killed", "its mapped task was cleared by a user")] * 2
    await world.work(result=[3])
    await world.work()
    assert await world.runs() == [("r1", "success")]


async def test_elements_whose_list_alone_was_cleared_fail(world: World, daemon: Daemon) -> None:
    claims = await claimed(world, daemon)
    await clear(world, task_ids=("list",), downstream=False)

    await submit(world, daemon, claims)

    reason = "its list, which task 'list' returned, was dropped when a user cleared that task; clear 'each' as well"
    assert daemon.backend.given == await others(world)
    assert await world.rows(ENDS) == [("failed", reason)] * 2


async def test_elements_beyond_a_shorter_list_fail(world: World, daemon: Daemon) -> None:
    claims = await claimed(world, daemon)
    await clear(world, task_ids=("list",), downstream=False)
    await world.work(result=[3])

    await submit(world, daemon, claims)

    first, *_ = [claim.submission_id for claim in claims]
    assert daemon.backend.given == [first, *await others(world)]
    assert [reason for _, reason in await world.rows(ENDS)] == [
        "its list, which task 'list' returned, has only 1 elements now; clear 'each' as well"
    ]


@pytest.mark.parametrize("is_taken_over", [False, True])
async def test_attempts_of_tasks_that_a_newer_version_lacks_are_killed(world: World, daemon: Daemon, is_taken_over: bool) -> None:
    await started(world, command("a"), command("b"), command("c"))
    await with_other(world)
    claims = (await daemon.dispatcher._claim(daemon.dispatcher._claim_intents)).claims
    await world.tell(RunEndRequested(dag_id="d", run_id="r1", state=RunState.FAILED, reason=CANCELLED))
    await world.file(DagSpec(dag_id="d", tasks=(command("c"),)))
    await clear(world, newest=True)

    await (take_over(world, daemon) if is_taken_over else submit(world, daemon, claims))

    assert daemon.backend.given == await others(world)
    assert await world.rows(ENDS) == [("killed", CANCELLED)] * 3
    await world.work()
    assert await world.runs() == [("r1", "success")]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("no such number:\n1e999"), "ValueError: no such number: 1e999"),
        (asyncpg.DataCorruptedError("missing chunk 0 for toast value"), "DataCorruptedError: missing chunk 0 for toast value"),
    ],
)
async def test_a_submission_that_cannot_be_built_fails_its_attempt(
    world: World, daemon: Daemon, monkeypatch: pytest.MonkeyPatch, error: Exception, reason: str
) -> None:
    claims = await claimed(world, daemon)

    async def unreadable(db: Db, instances: Sequence[tuple[int, Graph, int]]) -> Mapping[TaskKey, dict[str, Any]]:
        if instances:
            raise error
        return await results_for(db, instances)

    monkeypatch.setattr(submission_specs, "results_for", unreadable)
    with capture_logs() as entries:
        await submit(world, daemon, claims)

    assert daemon.backend.given == await others(world)
    assert await world.rows(ENDS) == [("failed", f"its submission could not be built: {reason}")] * 2
    assert [entry["event"] for entry in entries if entry["log_level"] == "error"] == ["submission_not_built"] * 2


async def test_a_statement_that_postgres_refuses_fails_no_attempt(
    world: World, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims = await claimed(world, daemon)

    async def refused(*_: Any) -> Mapping[TaskKey, dict[str, Any]]:
        raise asyncpg.UndefinedTableError('relation "task_result" does not exist')

    monkeypatch.setattr(submission_specs, "results_for", refused)
    with pytest.raises(UnavailableError, match="task_result"):
        await submit(world, daemon, claims)

    assert await world.rows(ENDS) == []


async def test_an_attempt_that_ended_meanwhile_is_not_submitted(world: World, daemon: Daemon) -> None:
    claims = await claimed(world, daemon)
    first, second, _ = [claim.submission_id for claim in claims]
    await world.finish(first)
    await world.rows("DELETE FROM submission WHERE submission_id = $1", second)

    await submit(world, daemon, claims)

    assert daemon.backend.given == await others(world)
