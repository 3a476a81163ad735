"""A claim of a daemon whose leases expired belongs to another: only one of them submits it."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec
import pytest

from tests.integration.cli.history import HOST, History
from tests.integration.spark.dispatching import Daemon
from tests.servers import MakeSettings
from tidegate.daemon.postgres.database import Database, connect
from tidegate.daemon.spark.host import host_of, open_spools
from tidegate.schemas.error import UnavailableError
from tidegate.schemas.message import TasksReady
from tidegate.schemas.queries import sources, submissions
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.sources import StoredEvent

FILE = 'from tidegate import Dag, Dataset\nwith Dag("d", schedule=Dataset("s://a")) as dag: dag.command("c", ["true"])\n'


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    async with connect(dsn) as database:
        yield database


@pytest.fixture
async def daemon(settings: MakeSettings, database: Database) -> Daemon:
    """One, with a task that waits to be submitted."""
    daemon = Daemon(settings(host=HOST, lease_ttl_s=600.0), database)
    await daemon.renew()
    await History(database).file(FILE)
    await History(database).updated("s://a")
    await daemon.context.submit_messages([TasksReady(pool="default_pool", limit=10)])
    return daemon


async def test_a_daemon_that_was_taken_for_dead_submits_nothing_of_before(daemon: Daemon) -> None:
    other = Daemon(daemon.context.settings, daemon.context.database)
    before = await daemon.dispatcher._claim(daemon.dispatcher._claim_intents)

    await daemon.lapse()
    await other.renew()
    taken_over = await other.dispatcher._claim(other.dispatcher._claim_abandoned)
    await daemon.renew()
    is_fresh = daemon.context.held_leases.fresh
    await daemon.dispatcher._submit_batch(before.claims)
    await other.renew()
    await other.dispatcher._resolve_batch(taken_over.claims)

    assert is_fresh
    assert [claim.submission_id for claim in taken_over.claims] == [claim.submission_id for claim in before.claims]
    assert (len(daemon.backend.given), len(other.backend.given)) == (0, 1)


async def test_a_claim_that_was_not_taken_over_is_claimed_again(daemon: Daemon) -> None:
    before = await daemon.dispatcher._claim(daemon.dispatcher._claim_intents)

    await daemon.lapse()
    await daemon.renew()
    await daemon.dispatcher._submit_batch(before.claims)
    again = await daemon.dispatcher._claim(daemon.dispatcher._claim_abandoned)
    await daemon.dispatcher._resolve_batch(again.claims)

    assert daemon.backend.given == [claim.submission_id for claim in before.claims]


async def test_a_claim_is_not_taken_over_with_another_spool_on_the_same_machine(daemon: Daemon, tmp_path: Path) -> None:
    """There, nothing is known of what may have been submitted."""
    elsewhere = msgspec.structs.replace(daemon.context.settings, spool_dir=str(tmp_path / "elsewhere"))
    open_spools(elsewhere)
    other = Daemon(elsewhere, daemon.context.database)
    other.backend.host = host_of(elsewhere)
    before = await daemon.dispatcher._claim(daemon.dispatcher._claim_intents)

    await daemon.lapse()
    await other.renew()
    taken_over = await other.dispatcher._claim(other.dispatcher._claim_abandoned)

    assert (len(before.claims), taken_over.claims) == (1, [])


async def test_a_daemon_that_may_be_taken_for_dead_while_it_looks_does_not_submit_afterwards(daemon: Daemon) -> None:
    """After a loss of commits a daemon looks before it submits."""
    daemon.context.held_leases.has_open_loss = True
    before = await daemon.dispatcher._claim(daemon.dispatcher._claim_intents)

    daemon.backend.look = daemon.lapse
    await daemon.dispatcher._submit_batch(before.claims)

    assert not daemon.backend.given


async def test_a_daemon_that_may_be_taken_for_dead_while_it_reads_events_does_not_submit_afterwards(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many events of a run, or large ones, are read at the last moment."""
    await daemon.dispatcher._claim(daemon.dispatcher._claim_intents)
    await History(daemon.context.database).updated("s://a", "2", {"text": "x" * sources.MAX_EXTRA_BYTES})
    await daemon.context.submit_messages([TasksReady(pool="default_pool", limit=10)])
    claimed = await daemon.dispatcher._claim(daemon.dispatcher._claim_intents)
    read = sources.page_of_events

    async def slowly(db: Db, ids: Sequence[int]) -> list[StoredEvent]:
        await daemon.lapse()
        return await read(db, ids)

    monkeypatch.setattr(sources, "page_of_events", slowly)
    await daemon.dispatcher._submit_batch(claimed.claims)

    assert (len(claimed.claims), daemon.backend.given) == (1, [])


async def test_a_postgres_that_goes_while_submits_are_settled_is_waited_for(daemon: Daemon) -> None:
    """It is no reason for a daemon to end."""
    batch = await daemon.dispatcher._claim(daemon.dispatcher._claim_intents)
    await daemon.context.database.pool.close()

    with pytest.raises(UnavailableError):
        await daemon.dispatcher._resolve_batch(batch.claims)

    assert not daemon.dispatcher.claims.ids


@pytest.mark.parametrize("is_killed", [False, True])
async def test_a_claim_of_a_daemon_that_lives_and_hangs_is_lost_once_it_is_to_be_killed(daemon: Daemon, is_killed: bool) -> None:
    """Such as with a disk that does not answer: its own daemon does not even end it."""
    database = daemon.context.database
    await daemon.dispatcher._claim(daemon.dispatcher._claim_intents)
    wanted = "kill" if is_killed else "run"
    await database.pool.execute(f"UPDATE submission SET submitted_at = now() - interval '1 hour', desired_state = '{wanted}'")
    await daemon.renew()

    assert len(await database.run(submissions.silent, 600)) == is_killed
