"""Five failures of event-driven scheduling that have been reproduced on a peer, here with two daemons: none of them happens."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from random import Random

import pytest

from tests.acceptance.command import Tidegate
from tests.acceptance.daemon_pair import DaemonPair, flat, two_daemons
from tests.waiting import AT_A_LOCK

Daemons = Callable[[str], AbstractAsyncContextManager[DaemonPair]]

RUNNING = "SELECT count(*) FROM dag_run WHERE dag_id = 'd' AND state = 'running'"
LEDGER = "SELECT count(*) FROM dataset_event"
PENDING = "SELECT count(*) FROM dataset_dag_run_queue WHERE target_dag_id = 'd'"
ANY_WAITS_FOR_LOCKS = f"SELECT (({AT_A_LOCK}) > 0)::integer"
SUCCEEDED = "SELECT count(*) FROM dag_run WHERE dag_id = $1 AND state = 'success'"


@pytest.fixture
def daemons(dsn: str, kafka: str, topic_prefix: str, tmp_path: Path) -> Daemons:
    """Start them with this DAG file."""
    return partial(two_daemons, dsn, kafka, topic_prefix, tmp_path)


@asynccontextmanager
async def sound(pair: DaemonPair) -> AsyncIterator[None]:
    """After the block the ledger is as it must be."""
    yield
    report = await pair.audit()
    assert (report.wrong, report.unproven) == (0, 0), report.findings


# Events behind `max_active_runs=1` ----------------------------------------------------------------------------------

ONE_AT_A_TIME = """
from tidegate import Dag, Dataset

with Dag("d", schedule=Dataset("lake://in"), max_active_runs=1{mode}) as dag:
    dag.command("work", ["sh", "-c", "while ! [ -e {home}/go ]; do sleep 0.05; done"])
"""


@pytest.mark.parametrize(("mode", "runs"), [("", 2), (', mode="each"', 6)], ids=["coalesced", "queued"])
async def test_no_event_is_lost_that_comes_while_a_dag_is_at_its_run_limit(daemons: Daemons, mode: str, runs: int) -> None:
    async with daemons(ONE_AT_A_TIME.replace("{mode}", mode)) as pair, sound(pair):
        first = await pair.send("lake://in")
        await pair.until_rows(1, RUNNING)
        behind = await pair.send(*["lake://in"] * 5)
        await pair.until_rows(5, PENDING)
        before = await pair.runs()

        (pair.home / "go").touch()
        await pair.until_rows(runs, SUCCEEDED, "d")

        taken = await pair.runs()
        assert before == [set(first)]
        assert (len(taken), flat(taken)) == (runs, sorted([*first, *behind]))


# Dataset runs starved by a cron backlog -----------------------------------------------------------------------------

BACKLOG = """
from datetime import datetime, timezone
from tidegate import Dag, Dataset, DatasetOrTime

schedule = DatasetOrTime(Dataset("lake://in"), "* * * * *")
start = datetime(2020, 1, 1, tzinfo=timezone.utc)

with Dag("d", schedule=schedule, start_date=start, catchup=True, max_active_runs=1) as dag:
    dag.command("work", ["sleep", "0.05"])
"""
BETWEEN = """
SELECT count(*)
FROM dag_run AS event_run
JOIN dagrun_dataset_event AS consumed ON consumed.dag_run_id = event_run.id
JOIN dataset_event AS event ON event.id = consumed.dataset_event_id
JOIN dag_run AS tick ON tick.dag_id = 'd' AND tick.run_type = 'scheduled'
WHERE event.event_id = $1 AND tick.start_date > event.received_at AND tick.start_date < event_run.start_date
"""
TICKS = "SELECT count(*) FROM dag_run WHERE dag_id = 'd' AND run_type = 'scheduled'"


async def test_an_event_waits_for_one_run_of_a_backlog_of_years_at_most(daemons: Daemons) -> None:
    async with daemons(BACKLOG) as pair, sound(pair):
        between, ticks = [], []
        for _ in range(3):
            (event,) = await pair.send("lake://in")
            await pair.until_taken([event])
            between.append(await pair.db.fetchval(BETWEEN, event))
            ticks.append(await pair.db.fetchval(TICKS))
            await pair.until_rows(1, "SELECT 1 WHERE (SELECT count(*) FROM dag_run WHERE run_type = 'scheduled') > $1", ticks[-1])

        assert max(between) <= 1
        assert await pair.db.fetchval(TICKS) > ticks[-1] > ticks[0]


# A producer blocked by another producer's open commit ---------------------------------------------------------------

PRODUCER = """
from tidegate import Dag, Dataset

with Dag("maker") as maker:
    maker.command("make", ["true"], outlets=[Dataset("lake://in")]) >> maker.empty("after")

with Dag("d", schedule=Dataset("lake://in")) as dag:
    dag.empty("only")
"""


async def test_a_producer_is_not_held_up_by_the_open_commit_of_another(daemons: Daemons, tidegate: Tidegate, dsn: str) -> None:
    async with daemons(PRODUCER) as pair, sound(pair):
        async with pair.halfway("lake://in", "other"):
            await tidegate("runs", "trigger", "maker", postgres_dsn=dsn)
            await pair.until_rows(1, SUCCEEDED, "maker")
            sent = await pair.send("lake://in")
            ended_while_open = await pair.db.fetchval(SUCCEEDED, "maker"), await pair.db.fetchval(SUCCEEDED, "d")

        await pair.until_rows(3, LEDGER)
        await pair.until_rows(0, PENDING)
        await pair.until_taken(["other", *sent])

        taken = flat(await pair.runs())
        assert ended_while_open == (1, 0)
        assert (len(taken), len(set(taken))) == (3, 3)


# An event lost between queue and delete -----------------------------------------------------------------------------

PLAIN = """
from tidegate import Dag, Dataset

with Dag("d", schedule=Dataset("lake://in")) as dag:
    dag.empty("only")
"""


async def test_an_event_that_comes_while_a_run_empties_the_queue_gets_a_run_of_its_own(daemons: Daemons) -> None:
    async with daemons(PLAIN) as pair, sound(pair):
        async with pair.halfway("lake://in", "first"):
            second = await pair.send("lake://in")
            await pair.until_rows(1, ANY_WAITS_FOR_LOCKS)

        await pair.until_taken(second)

        assert await pair.runs() == [{"first"}, set(second)]


async def test_no_event_of_a_flood_is_lost_or_taken_twice(daemons: Daemons) -> None:
    async with daemons(PLAIN) as pair, sound(pair):
        sent = [event for _ in range(40) for event in await pair.send(*["lake://in"] * 10)]

        await pair.until_taken(sent)

        assert flat(await pair.runs()) == sorted(sent)


# AND fired on one input ---------------------------------------------------------------------------------------------

BOTH = """
from tidegate import Dag, Dataset

with Dag("d", schedule=Dataset("lake://a") & Dataset("lake://b")) as dag:
    dag.empty("only")
"""
WAITING = "SELECT count(DISTINCT dataset_id) FROM dataset_dag_run_queue"
ONE_SIDED = """
SELECT count(*) FROM dag_run AS run WHERE (
    SELECT count(DISTINCT event.dataset_id)
    FROM dagrun_dataset_event AS consumed JOIN dataset_event AS event ON event.id = consumed.dataset_event_id
    WHERE consumed.dag_run_id = run.id
) <> 2
"""


async def test_a_run_that_needs_two_inputs_never_starts_with_one(daemons: Daemons) -> None:
    random = Random(5)
    async with daemons(BOTH) as pair, sound(pair):
        sent = 0
        for number in range(40):
            sent += len(await pair.send(*random.choices(["lake://a", "lake://b"], k=random.randint(1, 6))))
            if number % 4 == 0:  # all bursts in one batch are one run
                await pair.until_rows(sent, LEDGER)

        await pair.until_rows(sent, LEDGER)

        one_sided, runs, waiting = await pair.db.fetchval(ONE_SIDED), await pair.runs(), await pair.db.fetchval(WAITING)
        assert (one_sided, len(runs) > 5, waiting <= 1) == (0, True, True)
