"""What daemons tell of themselves while they live: by what they decide, and whom they cannot reach."""

from asyncio import create_task
from uuid import uuid4

from tests.waiting import until, until_at_locks
from tidegate.daemon.leases import HeldLeases, register, release, renew
from tidegate.daemon.outage import Outages
from tidegate.daemon.postgres.database import Database
from tidegate.schemas.error import UnavailableError
from tidegate.schemas.queries import leases
from tidegate.schemas.queries.leases import OUTBOX, Group, Job, JobRow, LeaseSpec, Terms

TERMS = Terms(parallelism=7, fair_after_s=5, lease_ttl_s=3600, backends=("command",))


async def live(database: Database) -> list[JobRow]:
    return await database.run(leases.live)


async def test_a_daemon_tells_by_what_it_decides(database: Database) -> None:
    await renew(database, HeldLeases(Job(uuid4(), "here", 7, "test", TERMS)))

    (daemon,) = await live(database)

    assert (daemon.host, daemon.pid, daemon.terms, daemon.away) == ("here", 7, TERMS, {})


async def test_a_daemon_tells_whom_it_cannot_reach_for_as_long_as_it_is_so(database: Database) -> None:
    outages, held_leases = Outages(), HeldLeases(Job(uuid4(), "here", 7, "test", TERMS))
    outages.begin(UnavailableError("no space is left", server="the spool"))
    await renew(database, held_leases, outages.away)

    (during,) = await live(database)
    outages.end("the spool")
    await renew(database, held_leases, outages.away)
    (after,) = await live(database)

    assert {server: away.error for server, away in during.away.items()} == {"the spool": "no space is left"}
    assert after.away == {}


async def test_a_daemon_is_taken_for_dead_by_its_own_time(database: Database) -> None:
    for ttl_s in (3000, 1000):
        job = Job(uuid4(), f"{ttl_s}", 7, "test", Terms(lease_ttl_s=ttl_s))
        await renew(database, HeldLeases(job))
    await database.pool.execute("UPDATE job SET heartbeat_at = heartbeat_at - interval '2000 s'")

    assert [daemon.host for daemon in await live(database)] == ["3000"]


async def test_five_daemons_have_the_same_of_each_topic_but_for_one(database: Database) -> None:
    topics = {Group("partition", "dataset-updated"): 12, Group("partition", "task-finished"): 12, Group("outbox", ""): 16}
    keys = [(group, f"{group.topic}/{n}" if group.topic else f"{n}") for group, count in topics.items() for n in range(count)]
    await register(database, [LeaseSpec(group.kind, key) for group, key in keys])
    daemons = [HeldLeases(Job(uuid4(), str(number), 7, "test", TERMS)) for number in range(5)]

    for _ in range(3):
        for daemon in daemons:
            await renew(database, daemon)

    for group, count in topics.items():
        hands = [sum(lease.group == group for lease in daemon.of(group.kind).values()) for daemon in daemons]
        assert sum(hands) == count
        assert max(hands) - min(hands) == 1
    hands = [sum(len(daemon.of(kind)) for kind in ("partition", "outbox")) for daemon in daemons]
    assert hands == [8] * 5


async def test_a_daemon_that_has_left_comes_back_by_no_renewal(database: Database) -> None:
    """A duty that reads where it stands may be slower to end than the one that keeps the leases."""
    held_leases = HeldLeases(Job(uuid4(), "here", 7, "test", TERMS))
    await register(database, [LeaseSpec(OUTBOX, "0")])
    await renew(database, held_leases)
    async with database.pool.acquire() as other, other.transaction():
        await other.execute("SELECT FROM job FOR UPDATE")
        under_way = create_task(renew(database, held_leases))
        await until_at_locks(database, 1)
        leaving = create_task(release(database, held_leases))
        await until(lambda: held_leases.lock.statistics().tasks_waiting, 30)
    await under_way
    await leaving
    await renew(database, held_leases)

    assert await live(database) == []
    assert await database.pool.fetchval("SELECT owner FROM lease") is None
