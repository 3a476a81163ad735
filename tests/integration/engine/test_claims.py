"""What daemons claim while another one does: no attempt, lease or notification has two owners, and no claim waits for another."""

from asyncio import create_task
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar
from uuid import UUID, uuid4

import asyncpg
import pytest

from tests.integration.engine.slots import command, dag, pool, waiting
from tests.integration.engine.world import World, utc
from tests.waiting import until_ended_or_at_a_lock
from tidegate.daemon.leases import HeldLeases, register, renew
from tidegate.schemas.message import SubmissionAccepted
from tidegate.schemas.queries import dead_letters, deadlines, installation, leases, notes, notifications, outbox, submissions
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.leases import CLOCK, OUTBOX, Group, Job, Lease, LeaseSpec, Terms
from tidegate.schemas.queries.memory import Memory

S = TypeVar("S")
T = TypeVar("T")
Work = Callable[[Db], Awaitable[T]]

WITHIN_S = 60.0
Claim = Callable[[Db, UUID], Awaitable[Sequence[Any]]]
Prepare = Callable[[World], Awaitable[None]]

NOTIFY = """
    INSERT INTO notification (dag_run_id, about, seq, kind, receiver_id, receiver, context)
    SELECT (SELECT id FROM dag_run), 'run', number, 'webhook', gen_random_uuid(), jsonb_build_object('url', number > 1), '{}'
    FROM generate_series(1, 4) AS number
"""

LETTERS = """
    INSERT INTO dead_letter (topic, partition, "offset", headers, value_bytes, reason, message, recorded_at)
    SELECT 't', 0, number, '[]', 0, '', '', now() FROM generate_series(1, 2) AS number
"""

STANDS = """
    CREATE FUNCTION stands() RETURNS boolean LANGUAGE plpgsql AS
    'BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN true; END';
    ALTER VIEW live_job RENAME TO live_before;
    CREATE VIEW live_job AS SELECT * FROM live_before WHERE stands() OFFSET 0;
"""
"""A statement that reads which daemons are live stands still for as long as another session has the lock 1."""


@asynccontextmanager
async def transaction(world: World) -> AsyncIterator[Db]:
    async with world.database.pool.acquire() as connection, connection.transaction():
        yield Db(connection, Memory(), world.at)


async def alone(world: World, work: Work[T]) -> T:
    """In a transaction of its own, once, and not again after a deadlock."""
    async with transaction(world) as db:
        return await work(db)


async def side_by_side(world: World, first: Work[T], second: Work[S]) -> tuple[T, S, bool]:
    """What both find, and whether the second ended before the first committed."""
    async with transaction(world) as db:
        found = await first(db)
        other = create_task(alone(world, second))
        has_ended = await until_ended_or_at_a_lock(world.database, other)
    return found, await other, has_ended


async def with_attempts(world: World, number: int = 4) -> None:
    await pool(world, "default_pool", number)
    await waiting(world, dag("d", *(command(f"t{index:02}") for index in range(number))))
    await world.admit()


async def live_daemon(world: World) -> HeldLeases:
    held = HeldLeases(Job(uuid4(), "here", 7, "test", Terms(lease_ttl_s=4 * WITHIN_S)))
    await renew(world.database, held)
    return held


async def intents(db: Db, owner: UUID) -> Sequence[Any]:
    return [claimed.submission_id for claimed in await submissions.claim_intents(db, owner, "here", "command", 2)]


async def abandoned(db: Db, owner: UUID) -> Sequence[Any]:
    return [claimed.submission_id for claimed in await submissions.claim_abandoned(db, owner, "here", "command", None, [])]


async def some_leases(db: Db, owner: UUID) -> Sequence[Any]:
    return [lease.key for lease in await leases.claim(db, owner, {Group(CLOCK, ""): 2})]


async def due(db: Db, owner: UUID, *, busy: Sequence[int] = ()) -> Sequence[Any]:
    claim = partial(notifications.claim, for_s=30.0, margin_s=1.0, silent_s=60.0, busy=busy)
    return [claimed.id for claimed in await claim(db, {"webhook": 2}, owner, "here")]


async def with_submits_of_nobody(world: World) -> None:
    await with_attempts(world)
    await world.database.run(submissions.claim_intents, uuid4(), "here", "command", 4)


async def with_leases(world: World) -> None:
    await register(world.database, [LeaseSpec(CLOCK, f"{shard}") for shard in range(4)])


async def with_notifications(world: World) -> None:
    await with_attempts(world, 1)
    await world.rows(NOTIFY)
    await world.rows("UPDATE notification SET due_at = $1", world.at)


@pytest.mark.parametrize(
    ("prepare", "claim", "found"),
    [
        pytest.param(with_attempts, intents, [2, 2], id="intents"),
        pytest.param(with_submits_of_nobody, abandoned, [4, 0], id="submits of a daemon that is gone"),
        pytest.param(with_leases, some_leases, [2, 2], id="leases"),
        pytest.param(with_notifications, due, [2, 2], id="notifications"),
        pytest.param(with_notifications, partial(due, busy=[1]), [2, 2], id="notifications beside a busy receiver"),
    ],
)
async def test_what_a_daemon_claims_is_not_claimed_beside_it(
    world: World, prepare: Prepare, claim: Claim, found: Sequence[int]
) -> None:
    await prepare(world)

    first, second, has_ended = await side_by_side(world, lambda db: claim(db, uuid4()), lambda db: claim(db, uuid4()))

    assert set(first) & set(second) == set()
    assert ([len(first), len(second)], has_ended) == (found, True)


@pytest.mark.parametrize(
    ("prepare", "claim"),
    [
        pytest.param(with_submits_of_nobody, abandoned, id="submits"),
        pytest.param(with_leases, some_leases, id="leases"),
    ],
)
async def test_a_claim_that_stands_still_takes_nothing_that_was_claimed_meanwhile(
    world: World, dsn: str, prepare: Prepare, claim: Claim
) -> None:
    """Its snapshot is older: by that, what it finds has no live owner."""
    await live_daemon(world)  # It finds no lease to claim.
    await prepare(world)
    await world.database.pool.execute(STANDS)
    other = await asyncpg.connect(dsn)
    await other.execute("SELECT pg_advisory_lock(1)")
    late = create_task(alone(world, lambda db: claim(db, uuid4())))
    assert not await until_ended_or_at_a_lock(world.database, late)

    table = "submission" if claim is abandoned else "lease"
    await other.execute(f"UPDATE {table} SET owner = gen_random_uuid()" + (", epoch = epoch + 1" if table == "lease" else ""))
    await other.close()

    assert await late == []


async def test_attempts_are_taken_up_in_the_order_in_which_they_were_admitted(world: World) -> None:
    await with_attempts(world, 20)

    claimed = await world.database.run(submissions.claim_intents, uuid4(), "here", "command", 15)

    assert [attempt.task_index for attempt in claimed] == list(range(15))


async def test_an_attempt_is_recorded_for_its_owner_alone(world: World) -> None:
    await with_attempts(world, 1)
    owner = uuid4()
    (claimed,) = await world.database.run(submissions.claim_intents, owner, "here", "command", 1)
    await world.tell(SubmissionAccepted(submission_id=claimed.submission_id, handle={}))

    found = [[*await world.database.run(submissions.recorded, [claimed.submission_id], who)] for who in (uuid4(), owner)]

    assert found == [[], [claimed.submission_id]]


async def test_a_try_is_concluded_by_its_owner_alone(world: World) -> None:
    await with_notifications(world)
    owner, states = uuid4(), []
    claim = partial(notifications.claim, for_s=30.0, margin_s=1.0, silent_s=60.0)
    (claimed,) = await world.database.run(claim, {"webhook": 1}, owner, "here")

    for who in (uuid4(), owner):
        await world.database.run(notifications.record_failure, claimed, who, "refused")
        states += await world.rows("SELECT state::text FROM notification WHERE id = $1", claimed.id)

    assert states == [("sending",), ("failed",)]


async def test_the_notifications_that_are_due_first_are_claimed_first(world: World) -> None:
    """Those with the highest ids, of the receivers with the highest keys, are due first."""
    await with_notifications(world)
    ids = [id_ for (id_,) in await world.rows("SELECT id FROM notification ORDER BY id DESC")]
    await world.rows("UPDATE notification SET due_at = $1::timestamptz - make_interval(secs => id)", world.at)

    for busy in ([], [1]):
        async with transaction(world) as db:
            assert sorted(await due(db, uuid4(), busy=busy), reverse=True) == ids[:2]
            await db.execute("UPDATE notification SET state = 'pending', owner = NULL")
            await db.execute("UPDATE notification SET due_at = $1::timestamptz - make_interval(secs => id)", world.at)


async def test_notifications_are_listed_newest_first(world: World) -> None:
    await with_notifications(world)
    ids = [id_ for (id_,) in await world.rows("SELECT id FROM notification ORDER BY id DESC")]

    for before, found in ((None, ids[:2]), (ids[1], ids[2:])):
        rows = await world.database.run(notifications.list_notifications, before=before, limit=2)
        assert [row.id for row in rows] == found


async def test_the_oldest_submits_of_a_daemon_that_is_gone_are_taken_over_first(world: World) -> None:
    """A batch has 200."""
    await pool(world, "default_pool", -1)
    await waiting(world, dag("d", *(command(f"t{number:03}") for number in range(202)), max_active_tasks=202))
    await world.admit()
    await world.database.run(submissions.claim_intents, uuid4(), "here", "command", 202)

    found = await world.database.run(submissions.claim_abandoned, uuid4(), "here", "command", None, [])

    assert sorted(claimed.task_index for claimed in found) == list(range(200))


async def release(db: Db, owner: UUID) -> None:
    await leases.release(db, owner, [Lease(CLOCK, f"{shard}", 1, None, halted=False) for shard in range(4)])


@pytest.mark.parametrize("release", [pytest.param(release, id="some"), pytest.param(leases.leave, id="all")])
async def test_a_daemon_that_was_frozen_releases_no_lease_that_is_claimed_beside_it(
    world: World, release: Callable[[Db, UUID], Awaitable[None]]
) -> None:
    frozen, owner = uuid4(), uuid4()
    await with_leases(world)
    await world.rows("UPDATE lease SET owner = $1", frozen)

    await side_by_side(world, lambda db: some_leases(db, owner), lambda db: release(db, frozen))

    counts = "SELECT count(*) FILTER (WHERE owner = $1), count(*) FILTER (WHERE owner IS NULL) FROM lease"
    assert await world.rows(counts, owner) == [(2, 2)]


async def test_a_dead_letter_is_closed_once(world: World) -> None:
    await world.rows(LETTERS)
    ids = [id_ for (id_,) in await world.rows("SELECT id FROM dead_letter")]

    async def discard(db: Db) -> list[int]:
        return await dead_letters.discard(db, ids, "user", "a test")

    assert await side_by_side(world, discard, discard) == (ids, [], False)


async def expire(db: Db) -> Sequence[Any]:
    return await dead_letters.expire(db, utc(2100, 1, 1), 1)


async def shrink(db: Db) -> Sequence[Any]:
    return await dead_letters.shrink(db, 0, 1)


@pytest.mark.parametrize(
    ("delete", "beside"),
    [pytest.param(expire, ["open"], id="old ones"), pytest.param(shrink, [], id="those above the limit, of which it picks one")],
)
async def test_the_first_dead_letter_is_deleted_and_a_daemon_beside_it_does_not_wait(
    world: World, delete: Work[Sequence[Any]], beside: Sequence[str]
) -> None:
    await world.rows(LETTERS)
    _, second = await world.rows("SELECT id FROM dead_letter ORDER BY id")

    async with transaction(world) as db, db.undone():
        await delete(db)
        left = [tuple(row) for row in await db.fetch("SELECT id FROM dead_letter")]

    assert left == [second]
    assert await side_by_side(world, delete, delete) == (["open"], beside, True)


async def test_users_release_an_installation_one_after_the_other(world: World) -> None:
    _, _, has_ended = await side_by_side(world, installation.lock, installation.lock)

    assert not has_ended


async def test_notes_of_a_run_are_changed_one_after_the_other(world: World) -> None:
    await with_attempts(world, 1)

    async def lock(db: Db) -> int | None:
        return await notes.lock_run(db, "d", "r1")

    first, second, has_ended = await side_by_side(world, lock, lock)

    assert (first == second, has_ended) == (True, False)


@pytest.mark.parametrize("row", ["dag", "dag_run", "deadline"])
async def test_deadlines_whose_rows_are_locked_are_left_to_the_next_visit(world: World, dsn: str, row: str) -> None:
    await with_attempts(world, 1)
    await world.rows("UPDATE dag_run SET state = 'queued'")
    sql = "INSERT INTO deadline (dag_run_id, name, due_at) SELECT id, 'late', $1 FROM dag_run"
    await world.rows(sql, world.at)
    ((id_,),) = await world.rows("SELECT id FROM deadline")

    async def hold(db: Db) -> None:
        await db.execute(f"SELECT FROM {row} FOR UPDATE")

    async def miss(db: Db) -> Sequence[int]:
        runs = await deadlines.lock_runs(db, [id_])
        return [found.id for found in await deadlines.lock_due(db, [id_], runs)]

    assert await side_by_side(world, hold, miss) == (None, [], True)
    assert await side_by_side(world, miss, miss) == ([id_], [], True)


async def with_a_row_of_the_outbox(world: World) -> tuple[HeldLeases, int]:
    """The daemon that owns its shard, and the id of the row."""
    await register(world.database, [LeaseSpec(OUTBOX, "0")])
    held = await live_daemon(world)
    assert held.of(OUTBOX).keys() == {"0"}
    await world.rows("DELETE FROM outbox")
    await world.rows(
        "INSERT INTO outbox (shard, kind, key, event_id, time, payload) VALUES (0, 'dag-run-state', '', '', now(), '')"
    )
    ((id_,),) = await world.rows("SELECT id FROM outbox")
    return held, id_


async def test_a_shard_is_not_claimed_while_its_owner_deletes_rows(world: World) -> None:
    """The new owner reads all of these rows or none."""
    held, id_ = await with_a_row_of_the_outbox(world)
    await world.rows("UPDATE job SET heartbeat_at = now() - interval '1 day'")

    async def delete(db: Db) -> Any:
        await outbox.delete(db, [id_], {0: held.of(OUTBOX)["0"].epoch})

    async def claim(db: Db) -> Any:
        return await leases.claim(db, uuid4(), {Group(OUTBOX, ""): 1})

    assert await side_by_side(world, delete, claim) == (None, [], True)
    assert await world.rows("SELECT FROM outbox") == []


async def test_rows_of_a_shard_that_is_being_claimed_stay(world: World) -> None:
    held, id_ = await with_a_row_of_the_outbox(world)
    epoch = held.of(OUTBOX)["0"].epoch
    await world.rows("UPDATE job SET heartbeat_at = now() - interval '1 day'")

    async def claim(db: Db) -> Any:
        return [lease.epoch for lease in await leases.claim(db, uuid4(), {Group(OUTBOX, ""): 1})]

    async def delete(db: Db) -> Any:
        await outbox.delete(db, [id_], {0: epoch})

    assert await side_by_side(world, claim, delete) == ([epoch + 1], None, True)
    assert await world.rows("SELECT id FROM outbox") == [(id_,)]
    await world.database.run(outbox.delete, [id_], {0: epoch})
    assert await world.rows("SELECT id FROM outbox") == [(id_,)], "its epoch has passed"
