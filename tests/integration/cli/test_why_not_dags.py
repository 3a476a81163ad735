"""`tidegate dags why-not`: each gate closed once and opened by the suggested change."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from tests.integration.cli.conftest import Cli
from tests.integration.cli.history import History
from tests.integration.cli.why_not import DAG, Wait, WhyNoRun
from tidegate.schemas.queries import leases, pending

BREAK = """UPDATE dag_version SET spec = jsonb_set(spec, '{schedule,where}', '"n >"')"""
HALT = "INSERT INTO lease (kind, key, halted) VALUES ('partition', $1, true)"
AGE_ALL_BUT_THE_NEWEST = """
    UPDATE dataset_dag_run_queue SET created_at = created_at - interval '2 hours'
    WHERE dataset_event_id < (SELECT max(dataset_event_id) FROM dataset_dag_run_queue)
"""
RECORD = "INSERT INTO ingest_incident (partition, next_offset, log_start, log_end) VALUES ($1, 9, 0, 5)"


pytestmark = pytest.mark.usefixtures("a_daemon")


@pytest.fixture
def why(cli: Cli, history: History, wait: Wait) -> WhyNoRun:
    return WhyNoRun(cli, history, wait)


async def test_inputs_that_are_missing_are_to_come(why: WhyNoRun, history: History) -> None:
    await why.file("schedule=a & b")
    await history.updated("s://b")

    page, change = await why.why(), await why.change()
    for uri in change["uris"]:
        await history.updated(uri, "2")

    assert page["starts"] is False
    assert page["change"][0]["commands"] == ["tidegate datasets publish s://a"]
    assert [(each["input"], each["events"]) for each in page["inputs"]] == [("s://a", 0), ("s://b", 1)]
    assert await why.runs() == 1


async def test_inputs_that_are_apart_are_to_come_again(why: WhyNoRun, history: History) -> None:
    await why.file("schedule=Timed(a & b, within=timedelta(hours=1))")
    await history.updated("s://a", "1", occurred_at=datetime.now(UTC) - timedelta(hours=2))
    await history.updated("s://b", "2")

    closed, change = await why.closed(), await why.change()
    await history.updated("s://a", "3")

    assert closed == {"condition": {"kind": "outside_window", "within_s": 3600}}
    assert change == {"kind": "publish", "inputs": ["s://a"], "uris": ["s://a"]}
    assert await why.runs() == 1


async def test_events_that_still_come_are_waited_for(why: WhyNoRun, history: History) -> None:
    await why.file("schedule=Timed(a, quiet_for=timedelta(days=1))")
    await history.updated("s://a")

    closed, change = await why.closed(), await why.change()
    await why.wait_until(change["until"])

    assert closed == {"timing": {"kind": "debouncing", "until": change["until"]}}
    assert await why.runs() == 1


async def test_the_newest_event_counts_where_more_are_pending_than_are_read(
    why: WhyNoRun, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending, "SHOWN", msgspec.structs.replace(pending.SHOWN, limit=2))
    await why.file("schedule=Timed(a, quiet_for=timedelta(hours=1))")
    for number in range(3):
        await history.updated("s://a", str(number))
    await history.database.run(lambda db: db.execute(AGE_ALL_BUT_THE_NEWEST))

    page, closed = await why.why(), await why.closed()

    assert (page["starts"], [*closed], closed["timing"]["kind"]) == (False, ["timing"], "debouncing")


async def test_the_time_between_two_runs_is_waited_for(why: WhyNoRun, history: History) -> None:
    await why.file("schedule=Timed(a, min_interval=timedelta(days=1))")
    await history.updated("s://a", "1")
    await history.updated("s://a", "2")

    closed, change = await why.closed(), await why.change()
    await why.wait_until(change["until"])

    assert closed == {"timing": {"kind": "rate_limited", "until": change["until"]}}
    assert await why.runs() == 2


async def test_a_tick_is_waited_for(why: WhyNoRun) -> None:
    await why.file("schedule=timedelta(days=7), start_date=datetime(2026, 1, 1, tzinfo=UTC)")
    await why.history.clock("d")
    before = await why.runs()

    closed, change = await why.closed(), await why.change()
    await why.wait_until(change["until"])

    assert closed == {"timetable": {"kind": "run_after", "at": change["until"]}}
    assert await why.runs() == before + 1


async def test_where_events_and_time_each_make_runs_either_will_do(why: WhyNoRun, history: History) -> None:
    await why.file('schedule=DatasetOrTime(a, "@yearly"), run_immediately=False')

    page = await why.why()
    await history.updated("s://a")

    assert [change["kind"] for change in page["change"]] == ["publish"]
    assert [change["kind"] for change in page["instead"]] == ["wait"]
    assert await why.runs() == 1


async def test_a_dag_that_is_paused_is_to_be_unpaused_and_what_it_missed_is_told(why: WhyNoRun, history: History) -> None:
    await why.file("schedule=a")
    await why.cli("dags", "pause", "d")
    await history.updated("s://a", "1")

    page = await why.why()
    for change in page["change"]:
        for command in change["commands"]:
            if command.startswith("tidegate dags"):
                await why.cli(*command.split()[1:])
    await history.updated("s://a", "2")

    assert [change["kind"] for change in page["change"]] == ["publish", "unpause"]
    assert [(each["reason"], each["events"]) for each in page["discarded"]] == [("the DAG was paused", 1)]
    assert await why.runs() == 1


async def test_a_dag_that_is_in_no_file_is_to_be_in_one(why: WhyNoRun, history: History) -> None:
    await why.file("schedule=a")
    await history.file_absent()
    await history.updated("s://a")

    closed, change = await why.closed(), await why.change()
    await history.file(DAG.format(dag="schedule=a"), path=change["path"])

    assert closed == {"DAG file": {"kind": "dag_stale"}}
    assert await why.runs() == 1


async def test_a_dag_at_its_limit_is_to_have_more_room(why: WhyNoRun, history: History) -> None:
    await why.file("schedule=a, max_active_runs=1")
    await history.updated("s://a", "1")
    await history.updated("s://a", "2")

    closed, change = await why.closed(), await why.change()
    await why.file(f"schedule=a, max_active_runs={change['limit']}")

    assert closed == {"run limit": {"kind": "max_active_runs", "limit": 1}}
    assert (change["limit"], await why.runs()) == (2, 2)


async def test_queued_runs_may_have_their_turn_first(why: WhyNoRun, history: History) -> None:
    await why.file("schedule=a, max_active_runs=1")
    await history.updated("s://a", "1")
    await history.updated("s://a", "2")
    await why.cli("runs", "trigger", "d", "--run-id", "q")

    change = await why.change()
    await why.file(f"schedule=a, max_active_runs={change['limit']}")

    assert change["limit"] == 3
    assert await why.runs() == 3


async def test_a_dag_without_a_schedule_is_to_be_asked(why: WhyNoRun) -> None:
    await why.file("")

    closed = await why.closed()
    (change,) = (await why.why())["change"]
    await why.cli(*change["commands"][0].split()[1:])

    assert closed == {"schedule": {"kind": "no_schedule"}}
    assert await why.runs() == 1


async def test_a_condition_that_cannot_be_read_is_to_be_mended(why: WhyNoRun, history: History) -> None:
    await why.file("schedule=Dataset('s://a', where='n > 1')")
    await history.database.run(lambda db: db.execute(BREAK))
    await history.updated("s://a", extra={"n": 1})

    closed, change = await why.closed(), await why.change()
    await why.file("schedule=Dataset('s://a', where='n > 0')")

    assert closed["condition"]["kind"] == "condition_broken"
    assert change == {"kind": "mend_file", "path": "daily.py"}
    assert await why.runs() == 1


async def test_a_partition_that_stands_still_is_told(why: WhyNoRun, history: History) -> None:
    await why.file("schedule=a")
    partition = "tidegate.dataset-updated/3"
    await history.database.run(lambda db: db.execute(HALT, partition))
    await history.database.run(lambda db: db.execute(RECORD, partition))
    (stop,) = await history.database.run(leases.incidents)

    closed = await why.closed()
    resumed = await history.database.run(leases.resume, stop, 0, "me")

    assert closed["intake"] == {"kind": "intake_halted", "partitions": [partition]}
    assert resumed
    assert "intake" not in await why.closed()


async def test_without_a_daemon_nothing_is_decided(why: WhyNoRun, history: History) -> None:
    await why.file("schedule=a")
    await history.no_daemon()

    before = await why.closed()
    await history.daemon()

    assert before["daemons"] == {"kind": "no_daemon"}
    assert list(await why.closed()) == ["condition"]


async def test_a_dag_that_never_got_its_inputs_is_a_page_for_people(why: WhyNoRun, history: History) -> None:
    await why.file("schedule=a & b")
    await history.updated("s://b")

    answer = await why.cli("dags", "why-not", "d")

    assert answer.out.startswith("d\n  waits for  its condition to hold: no event is pending of s://a (condition)\n\ngates\n")
    assert "\ncondition closed 0s inputs 1 of 2; pending 1; version 1\n" in answer.timeless
    assert "\ninputs\n○ all of\n├── ○ s://a (nothing pending)\n└── ✓ s://b (1 event pending for 0s)\n" in answer.timeless
    assert answer.out.endswith(
        "\nthe smallest change that makes a run\n  publish an event of s://a\n    tidegate datasets publish s://a\n"
    )


async def test_a_dag_that_does_not_exist_is_refused(why: WhyNoRun) -> None:
    complaint = "tidegate: there is no DAG 'd'; `tidegate dags list` shows all\n"

    assert await why.cli("dags", "why-not", "d") == (1, "", complaint)
