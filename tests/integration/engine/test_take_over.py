"""Submissions that another daemon began, taken over while Postgres comes and goes."""

from collections import Counter
from collections.abc import Sequence
from math import log2
from pathlib import Path
from uuid import UUID, uuid4

import anyio
import pytest

from tests.integration.engine.slots import command, dag, pool, waiting
from tests.integration.engine.world import World
from tidegate.daemon import outage
from tidegate.daemon.context import Context
from tidegate.daemon.duties import active_claims, dispatch
from tidegate.daemon.duties.dispatch import Dispatcher
from tidegate.daemon.duties.submission_specs import Step, next_steps
from tidegate.daemon.duties.sweep import UnreachableAttempts
from tidegate.daemon.leases import HeldLeases, renew
from tidegate.daemon.outage import Outages
from tidegate.daemon.postgres.database import Database
from tidegate.daemon.settings import Settings
from tidegate.daemon.spark.contract import SubmissionSpec
from tidegate.daemon.spark.runner_backend import open_backends
from tidegate.daemon.wake import Signals
from tidegate.schemas.error import NotStartedError, UnavailableError
from tidegate.schemas.message import SubmissionAccepted
from tidegate.schemas.queries import submissions
from tidegate.schemas.queries.leases import Job, Terms
from tidegate.schemas.queries.submissions import ClaimedAttempt

WITHIN_S = 60.0


async def daemon_on(world: World, spool: Path, ttl_s: float = 4 * WITHIN_S) -> Context:
    """A daemon that holds its leases, and whose duties a test starts."""
    settings = Settings(postgres_dsn="", kafka_servers="", host="here", spool_dir=str(spool))
    held_leases = HeldLeases(Job(uuid4(), "here", 7, "test", Terms(lease_ttl_s=ttl_s)))
    await renew(world.database, held_leases)
    return Context(settings, world.database, held_leases, Signals(), Outages(), open_backends(settings))


async def test_a_connection_lost_after_the_claim_ends_no_daemon(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await waiting(world, dag("d", command("t")))
    await world.admit()
    await world.database.run(submissions.claim_intents, uuid4(), "here", "command", 10)
    await world.rows("UPDATE submission SET desired_state = 'kill', kill_reason = 'by a user'")
    lost: list[Sequence[ClaimedAttempt]] = []

    async def lose_once(database: Database, claims: Sequence[ClaimedAttempt]) -> list[Step]:
        if not lost:
            lost.append(claims)
            await database.autocommit(lambda db: db.execute("SELECT pg_terminate_backend(pg_backend_pid())"))
        return await next_steps(database, claims)

    monkeypatch.setattr(dispatch, "next_steps", lose_once)
    context = await daemon_on(world, tmp_path)

    with anyio.fail_after(WITHIN_S):
        async with anyio.create_task_group() as tg:
            tg.start_soon(Dispatcher(context, context.backends["command"]).take_over)
            while await world.rows("SELECT FROM submission WHERE ended_at IS NULL"):
                await anyio.sleep(0.02)
            tg.cancel_scope.cancel()

    assert len(lost) == 1
    assert await world.rows("SELECT state::text FROM submission") == [("killed",)]


async def test_an_unexpected_error_of_one_submit_stops_no_other(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await waiting(world, dag("d", command("a"), command("b")))
    await world.admit()
    context = await daemon_on(world, tmp_path)
    submitted: list[str] = []

    async def submit(spec: SubmissionSpec) -> dict[str, str]:
        submitted.append(spec.task.task_id)
        if spec.task.task_id == "a":
            raise KeyError("surprise")
        return {}

    monkeypatch.setattr(context.backends["command"], "submit", submit)
    with anyio.fail_after(WITHIN_S):
        async with anyio.create_task_group() as tg:
            dispatcher = Dispatcher(context, context.backends["command"])
            dispatcher.intents.set()
            tg.start_soon(dispatcher.submit_intents)
            tg.start_soon(dispatcher.record)
            while not await world.rows("SELECT FROM submission WHERE state = 'accepted'"):
                await anyio.sleep(0.02)
            tg.cancel_scope.cancel()

    assert sorted(submitted) == ["a", "b"]
    assert sorted(await world.rows("SELECT state::text FROM submission")) == [("accepted",), ("submitting",)]


@pytest.mark.parametrize(("error", "left"), [(NotStartedError, "intent"), (UnavailableError, "submitting")])
async def test_a_host_that_can_start_nothing_tries_one_intent_at_a_time_and_gives_it_back(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[UnavailableError], left: str
) -> None:
    await pool(world, "default_pool", -1)
    await waiting(world, dag("d", *(command(f"t{number:02}") for number in range(40)), max_active_tasks=40))
    await world.admit()
    context = await daemon_on(world, tmp_path)
    submitted: list[str] = []
    is_full = True
    monkeypatch.setattr(active_claims, "FIRST_PAUSE_S", active_claims.LONGEST_PAUSE_S)
    monkeypatch.setattr(outage, "LONGEST_PAUSE_S", 0.01)

    async def submit(spec: SubmissionSpec) -> dict[str, str]:
        submitted.append(spec.task.task_id)
        if is_full:
            raise error("no space left on device", server="the spool")
        return {}

    monkeypatch.setattr(context.backends["command"], "submit", submit)
    dispatcher = Dispatcher(context, context.backends["command"])
    counts: list[int] = []
    for works in (False, False, False, True, True):
        is_full = not works
        await dispatcher._claim_and_submit(dispatcher._claim_intents, dispatcher._submit_batch)
        counts.append(len(submitted))

    first = context.settings.dispatch_concurrency
    assert (counts[:4], counts[4] >= first + 3 + first) == ([first, first + 1, first + 2, first + 3], True)
    assert len(set(submitted)) == len(submitted)
    failed = "SELECT state::text, owner IS NULL, host, count(*) FROM submission WHERE task_index < $1 GROUP BY 1, 2, 3"
    is_free, host = (True, None) if left == "intent" else (False, "here")
    assert await world.rows(failed, first + 2) == [(left, is_free, host, first + 2)]


async def test_only_its_owner_gives_an_attempt_back(world: World) -> None:
    await waiting(world, dag("d", command("t")))
    await world.admit()
    mine, other = uuid4(), uuid4()
    (claimed,) = await world.database.run(submissions.claim_intents, mine, "here", "command", 10)

    states = []
    for owner in (other, mine):
        await world.database.run(submissions.give_back, claimed.submission_id, owner)
        states += await world.rows("SELECT state::text FROM submission")

    assert states == [("submitting",), ("intent",)]


async def test_attempts_that_cannot_be_resolved_pause_and_starve_no_other(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch, began = 200, anyio.current_time()
    await pool(world, "default_pool", -1)
    await waiting(world, dag("d", *(command(f"t{number}") for number in range(batch + 1)), max_active_tasks=2 * batch))
    await world.admit()
    await world.database.run(submissions.claim_intents, uuid4(), "here", "command", 2 * batch)
    ((last,),) = await world.rows("SELECT submission_id FROM submission ORDER BY task_index DESC LIMIT 1")
    context = await daemon_on(world, tmp_path)
    looks: list[UUID] = []

    async def find(submission_id: UUID) -> dict[str, str] | None:
        looks.append(submission_id)
        if submission_id != last:
            raise UnavailableError("it does not answer", server="far")
        return {}

    monkeypatch.setattr(context.backends["command"], "find", find)
    with anyio.fail_after(WITHIN_S):
        async with anyio.create_task_group() as tg:
            dispatcher = Dispatcher(context, context.backends["command"])
            tg.start_soon(dispatcher.take_over)
            tg.start_soon(dispatcher.record)
            while not await world.rows("SELECT FROM submission WHERE state = 'accepted'"):
                await anyio.sleep(0.02)
            await anyio.sleep(0.5)
            tg.cancel_scope.cancel()

    took_s = anyio.current_time() - began
    assert looks.count(last) == 1
    assert max(Counter(looks).values()) <= 1 + log2(1 + took_s / active_claims.FIRST_PAUSE_S), "the pauses double"


async def test_the_pauses_of_an_attempt_double(monkeypatch: pytest.MonkeyPatch) -> None:
    claims, id_, now = active_claims.ActiveClaims(HeldLeases(Job(uuid4(), "here", 7, "test", Terms()))), uuid4(), 100.0
    monkeypatch.setattr(anyio, "current_time", lambda: now)
    pauses: list[float] = []

    for _ in range(8):
        claims.pause([id_])
        began = now
        while id_ in claims.excluded:
            now += 0.5
        pauses.append(now - began)

    assert pauses == [1, 2, 4, 8, 16, 30, 30, 30]


@pytest.mark.parametrize(
    ("host", "age_s", "state"),
    [
        pytest.param("there", 60, "killed", id="it is frozen or gone"),
        pytest.param("there", -60, "submitting", id="it lives"),
        pytest.param("here", 60, "submitting", id="another daemon of its host resolves the submit"),
    ],
)
async def test_a_task_that_a_lost_daemon_was_submitting_goes_to_another_host(
    world: World, tmp_path: Path, host: str, age_s: float, state: str
) -> None:
    await waiting(world, dag("d", command("t")))
    await world.admit()
    frozen = Job(uuid4(), host, 7, "test", Terms(lease_ttl_s=1.0))
    await renew(world.database, HeldLeases(frozen))
    (claim,) = await world.database.run(submissions.claim_intents, frozen.id, host, "command", 10)
    await world.rows("UPDATE submission SET submitted_at = submitted_at - interval '9 s'")
    context, unreachable = await daemon_on(world, tmp_path, 0.5), UnreachableAttempts()
    await world.rows("UPDATE job SET heartbeat_at = now() - make_interval(secs => $1) WHERE id = $2", age_s, frozen.id)
    await world.rows("UPDATE job SET heartbeat_at = now() + interval '1 min' WHERE id <> $1", frozen.id)

    with anyio.move_on_after(WITHIN_S if state == "killed" else 1.0):
        while await world.rows("SELECT FROM submission WHERE ended_at IS NULL"):
            await unreachable.requeue_unreachable_attempts(context)
            await anyio.sleep(0.05)

    assert await world.rows("SELECT state::text FROM submission") == [(state,)]
    if state == "killed":
        await world.tell(SubmissionAccepted(submission_id=claim.submission_id, handle={}))  # the daemon goes on
        assert await world.database.run(submissions.recorded, [claim.submission_id], frozen.id) == {}
        await world.admit()
        again = await world.database.run(submissions.claim_intents, uuid4(), "here", "command", 10)
        assert [attempt.try_number for attempt in again] == [2]
