"""Events that come late, early or out of order: none is lost, and runs say when the newest of theirs happened."""

from datetime import UTC, datetime

from tests.integration.cli.history import History
from tests.integration.ingest.intake import Intake, Sent
from tidegate.schemas.wire.event import Kind

FILE = """
from tidegate import Dag, Dataset
with Dag("report", schedule=Dataset("lake://flights") & Dataset("lake://weather")) as dag:
    dag.empty("done")
"""
RUNS = """
SELECT run_after, state, array_agg(event.event_id ORDER BY event.id) AS events
FROM dag_run AS run
JOIN dagrun_dataset_event AS consumed ON consumed.dag_run_id = run.id
JOIN dataset_event AS event ON event.id = consumed.dataset_event_id
GROUP BY run.id ORDER BY run.id
"""


def at(day: int, uri: str, *, year: int = 2013) -> Sent:
    time = f"{year}-01-{day:02}T00:00:00Z".encode()
    name = f"{uri}/{day}".encode()
    return Sent(b'{"uri": "lake://%s"}' % uri.encode(), [("ce_id", name), ("ce_source", b"test"), ("ce_time", time)])


async def test_events_out_of_order_are_consumed_together_under_the_newest_time(intake: Intake, history: History) -> None:
    await history.file(FILE, "report.py")

    await intake.take(Kind.DATASET_UPDATED, at(3, "flights"), at(1, "flights"), at(2, "weather"))

    (run,) = await intake.rows(RUNS)
    assert run["events"] == ["flights/3", "flights/1", "weather/2"]
    assert run["run_after"] == datetime(2013, 1, 3, tzinfo=UTC)


async def test_what_comes_late_is_of_the_next_run(intake: Intake, history: History) -> None:
    await history.file(FILE, "report.py")
    await intake.take(Kind.DATASET_UPDATED, at(5, "flights"), at(5, "weather"))

    await intake.take(Kind.DATASET_UPDATED, at(2, "flights"), at(1, "weather"))

    first, second = await intake.rows(RUNS)
    assert (first["events"], second["events"]) == (["flights/5", "weather/5"], ["flights/2", "weather/1"])
    assert second["run_after"] == datetime(2013, 1, 2, tzinfo=UTC)


async def test_a_producer_whose_clock_is_ahead_blocks_no_other_and_makes_no_run_late(intake: Intake, history: History) -> None:
    await history.file(FILE, "report.py")

    await intake.take(Kind.DATASET_UPDATED, at(1, "flights", year=2099), at(1, "weather"))

    (run,) = await intake.rows(RUNS)
    assert (run["run_after"] <= datetime.now(UTC), run["state"]) == (True, "success")


async def test_events_that_come_before_a_dag_names_their_dataset_are_kept(intake: Intake, history: History) -> None:
    await intake.take(Kind.DATASET_UPDATED, at(1, "flights"))

    await history.file(FILE, "report.py")
    await intake.take(Kind.DATASET_UPDATED, at(2, "flights"), at(2, "weather"))

    (run,) = await intake.rows(RUNS)
    assert run["events"] == ["flights/2", "weather/2"]
    assert await intake.uris() == ["lake://flights", "lake://flights", "lake://weather"]
