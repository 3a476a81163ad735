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
from tidegate.daemon.duties.submission_specs import submission_specs as submission_specs_of
from tidegate.daemon.postgres.database import connect
from tidegate.daemon.spark.contract import SubmissionSpec
from tidegate.schemas.dag import DagSpec
from tidegate.schemas.error import DagFaultError, TooSlowError, UnavailableError
from tidegate.schemas.graph import Graph
from tidegate.schemas.message import ReleaseRequested, RunEndRequested, RunRequested
from tidegate.schemas.queries import results
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.results import results_for
from tidegate.schemas.queries.submissions import ClaimedAttempt
from tidegate.schemas.state import RunState
from tidegate.schemas.view import TaskKey

CANCELLED = "cancelled by me"
OTHER = "SELECT submission_id FROM submission JOIN dag_run AS run ON run.id = dag_run_id WHERE run.dag_id = 'other'"
WAITING = (
    "SELECT submission_id, dag_run_id, task_index, try_number, '' FROM submission WHERE state = 'intent' ORDER BY task_index"
)
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
    daemon = Daemon(settings(host=HOST, lease_ttl_s=600.0), world.database)
    await daemon.renew()
    return daemon


async def with_other(world: World) -> None:
    """A task of another DAG waits, too."""
    await world.file(DagSpec(dag_id="other", tasks=(command("a"),)), path="other.py")
    await world.tell(RunRequested(dag_id="other", run_id="r1", conf={}, logical_date=utc(2024, 4, 1)))
    await world.reconsider()
    await world.admit()


async def claimed(world: World, daemon: Daemon) -> Sequence[ClaimedAttempt]:
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


async def submit(world: World, daemon: Daemon, claims: Sequence[ClaimedAttempt]) -> None:
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
    await clear(world, newest_version=True)

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

    async def unreadable(db: Db, instances: Sequence[tuple[int, Graph, int]]) -> Mapping[TaskKey, Any]:
        if instances:
            raise error
        return await results_for(db, instances)

    monkeypatch.setattr(submission_specs, "results_for", unreadable)
    with capture_logs() as entries:
        await submit(world, daemon, claims)

    assert daemon.backend.given == await others(world)
    assert await world.rows(ENDS) == [("failed", f"its submission could not be built: {reason}")] * 2
    assert [entry["event"] for entry in entries if entry["log_level"] == "error"] == ["submission_not_built"] * 2


async def test_an_attempt_whose_version_cannot_be_read_waits_for_the_release_of_its_dag(world: World, daemon: Daemon) -> None:
    await started(world, command("a"))
    await with_other(world)
    claims = (await daemon.dispatcher._claim(daemon.dispatcher._claim_intents)).claims
    ((version, spec),) = await world.rows("SELECT id, spec::text FROM dag_version WHERE dag_id = 'd'")
    await world.rows("UPDATE dag_version SET spec = '{}' WHERE id = $1", version)
    world.database.clear_memory()

    await submit(world, daemon, claims)

    assert daemon.backend.given == await others(world)
    assert await world.rows(ENDS) == []
    assert await world.rows("SELECT dag_id FROM dag WHERE held_since IS NOT NULL") == [("d",)]
    await world.rows("UPDATE dag_version SET spec = $2::text::jsonb WHERE id = $1", version, spec)
    await world.tell(ReleaseRequested(dag_id="d"))
    await daemon.dispatcher._resolve_batch((await daemon.dispatcher._claim(daemon.dispatcher._claim_abandoned)).claims)
    assert set(daemon.backend.given) == {claim.submission_id for claim in claims}


async def test_a_version_that_is_mended_meanwhile_costs_no_attempt(
    world: World, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims = await claimed(world, daemon)
    faults = [DagFaultError({"d": "its version 1 cannot be read"})] * 2  # of the batch, and of its first half

    async def mended_later(db: Db, part: Sequence[ClaimedAttempt]) -> list[submission_specs.Built]:
        if faults:
            raise faults.pop()
        return await submission_specs_of(db, part)

    monkeypatch.setattr(submission_specs, "submission_specs", mended_later)
    await submit(world, daemon, claims)

    assert set(daemon.backend.given) == {claim.submission_id for claim in claims}
    assert await world.rows("SELECT dag_id FROM dag WHERE held_since IS NOT NULL") == []


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


async def test_claims_that_are_too_slow_to_be_read_stop_no_other_and_pause(
    world: World, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims = await claimed(world, daemon)
    slow = {claim.submission_id for claim in claims} - set(await others(world))

    async def too_slow(db: Db, instances: Sequence[tuple[int, Graph, int]]) -> Mapping[TaskKey, Any]:
        if instances:
            raise TooSlowError("canceling statement due to statement timeout", server="Postgres")
        return await results_for(db, instances)

    monkeypatch.setattr(submission_specs, "results_for", too_slow)
    with capture_logs() as entries:
        await submit(world, daemon, claims)
        again = await daemon.dispatcher._claim(daemon.dispatcher._claim_abandoned)
        await daemon.dispatcher._resolve_batch(again.claims)

    assert daemon.backend.given == await others(world)
    assert await world.rows(ENDS) == []
    assert {claim.submission_id for claim in again.claims} == daemon.dispatcher.claims.paused == slow
    assert [entry["event"] for entry in entries].count("submission_too_slow") == 4


@pytest.mark.parametrize(("length", "fails"), [(8, False), (9, True)])
async def test_a_task_after_a_mapped_task_with_large_results_fails(
    world: World, daemon: Daemon, monkeypatch: pytest.MonkeyPatch, length: int, fails: bool
) -> None:
    monkeypatch.setattr(results, "MAX_RESULTS_BYTES", 20)
    await started(world, command("list"), command("each", "list", over="list"), command("after", "each"))
    await world.work(result=[1, 2])
    await world.work(result="x" * length)
    await with_other(world)
    claims = (await daemon.dispatcher._claim(daemon.dispatcher._claim_intents)).claims

    await submit(world, daemon, claims)

    problem = "the instances of 'each' returned 22 bytes of JSON together, more than 20"
    assert len(daemon.backend.given) == (1 if fails else 2)
    assert await world.rows(ENDS) == (
        [("failed", f"{problem}; write the data elsewhere and return its location")] if fails else []
    )


async def test_an_instance_has_its_element_and_not_the_list(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of a list that is too large as a whole."""
    monkeypatch.setattr(results, "MAX_RESULTS_BYTES", 20)
    again = command("again", "list", "each", over="each")
    await started(world, command("list"), command("each", "list", over="list"), again, command("after", "each", "again"))
    await world.work(result=["a", None])

    async def contexts() -> list[tuple[str, Any, dict[str, Any]]]:
        await world.admit()
        waiting = await world.rows(WAITING)
        built = await world.database.autocommit(submission_specs.submission_specs, [ClaimedAttempt(*row) for row in waiting])
        return [(it.run.task_id, it.run.item, it.run.results) for it in built if isinstance(it, SubmissionSpec)]

    assert await contexts() == [("each", "a", {}), ("each", None, {})]
    await world.work(result="x" * 30)
    assert await contexts() == [("again", "x" * 30, {"list": ["a", None]})] * 2
    await world.work(result=1)
    assert await contexts() == []


async def test_an_attempt_knows_the_earlier_ones_that_began(world: World) -> None:
    await started(world, command("a", retries=2, retry_delay_s=0))
    await world.work("failed")
    await world.admit()
    await world.rows("UPDATE submission SET state = 'lost', ended_at = now() WHERE state = 'intent'")
    first, (second, run, index, _) = await world.rows(
        "SELECT submission_id, dag_run_id, task_index, try_number FROM submission ORDER BY try_number"
    )

    (built,) = await world.database.autocommit(submission_specs.submission_specs, [ClaimedAttempt(second, run, index, 3, "")])

    assert isinstance(built, SubmissionSpec)
    assert built.earlier == first[:1]
