"""What a daemon learns when it renews its leases: its rank among those alive, the leases to share, and lost commits."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import msgspec
import pytest

from tidegate.daemon.postgres.database import Database
from tidegate.schemas.queries import leases, losses
from tidegate.schemas.queries.leases import OUTBOX, PARTITION, DaemonRank, Group, Job, LeaseSpec, Standing, Terms

ALL = Group(OUTBOX, "")
"""What all daemons of a test share."""

TTL_S = 3600.0
FORMER = Terms(lease_ttl_s=TTL_S)
"""Those of a former version, which names no groups."""

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)


async def begun(database: Database, heard_of: timedelta, terms: Terms = FORMER) -> Job:
    job = Job(uuid4(), "here", 1, "0", terms)
    await database.pool.execute(
        "INSERT INTO job (id, host, pid, version, settings, started_at, heartbeat_at)"
        " VALUES ($1, $2, $3, $4, $5, clock_timestamp(), clock_timestamp() - $6::interval)",
        *msgspec.structs.astuple(job),
        heard_of,
    )
    return job


async def standing(database: Database, job: Job) -> Standing:
    return await database.autocommit(leases.renew, job)


async def place(database: Database, job: Job) -> DaemonRank:
    found = await standing(database, job)
    assert found.daemons == found.ranks[ALL].of
    return found.ranks[ALL]


@pytest.fixture(autouse=True)
async def outbox(database: Database) -> None:
    await database.run(leases.create_leases, [LeaseSpec(OUTBOX, "0")])


async def test_daemons_are_numbered_by_age_and_silent_ones_do_not_count(database: Database) -> None:
    oldest = await begun(database, timedelta())
    await begun(database, timedelta(seconds=TTL_S + 1))
    youngest = await begun(database, timedelta())

    assert await place(database, oldest) == DaemonRank(0, 2)
    assert await place(database, youngest) == DaemonRank(1, 2)


async def test_a_daemon_that_renews_lives_also_when_it_was_frozen_before(database: Database) -> None:
    frozen = await begun(database, timedelta(seconds=TTL_S + 1))

    assert await place(database, frozen) == DaemonRank(0, 1)

    await begun(database, timedelta())

    assert await place(database, frozen) == DaemonRank(0, 2)


async def test_the_leases_of_each_topic_are_counted_without_halted_ones(database: Database) -> None:
    owned = [(PARTITION, "a/0"), (PARTITION, "a/1"), (PARTITION, "a/2"), (PARTITION, "b/0")]
    await database.run(leases.create_leases, [LeaseSpec(*lease) for lease in owned])
    await database.pool.execute("UPDATE lease SET halted = true WHERE key IN ('a/1', 'b/0')")
    alone = await begun(database, timedelta())

    assert (await standing(database, alone)).counts == {Group(PARTITION, "a"): 2, Group(OUTBOX, ""): 1}


async def test_a_daemon_is_ranked_among_the_daemons_that_share_a_group_of_leases(database: Database) -> None:
    """The former version names no groups: it claims all."""
    await database.run(leases.create_leases, [LeaseSpec(PARTITION, "new/0")])
    former = await begun(database, timedelta())
    old = await begun(database, timedelta(), Terms(groups=(ALL,), lease_ttl_s=TTL_S))
    new = await begun(database, timedelta(), Terms(groups=(ALL, Group(PARTITION, "new")), lease_ttl_s=TTL_S))

    ranks = [(await standing(database, job)).ranks for job in (former, old, new)]

    assert ranks == [
        {ALL: DaemonRank(0, 3), Group(PARTITION, "new"): DaemonRank(0, 2)},
        {ALL: DaemonRank(1, 3)},
        {ALL: DaemonRank(2, 3), Group(PARTITION, "new"): DaemonRank(1, 2)},
    ]


async def test_a_loss_of_commits_is_open_until_a_user_settles_it(database: Database) -> None:
    alone = await begun(database, timedelta())
    before = await standing(database, alone)
    for timeline in ("00000002", "00000003"):
        await database.run(losses.record, timeline=timeline, since=NOON, until=NOON, found_by="here")

    found = await standing(database, alone)
    await database.run(losses.settle, 1, "a user", "looked through")
    left = await standing(database, alone)
    await database.run(losses.settle, 2, "a user", "looked through")
    settled = await standing(database, alone)

    assert [each.has_open_loss for each in (before, found, left, settled)] == [False, True, True, False]
