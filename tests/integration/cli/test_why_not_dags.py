"""`tidegate dags why-not`: each gate closed once, what is said to help, and that it does."""

import re

import anyio
import pytest

from tests.integration.cli.asked import DAG, AskedOfDag
from tests.integration.cli.conftest import Cli
from tests.integration.cli.past import Past
from tidegate.schemas.queries import leases
from tidegate.schemas.queries.leases import Incident

BREAK = """UPDATE dag_version SET spec = jsonb_set(spec, '{schedule,where}', '"n >"')"""
HALT = "INSERT INTO lease (kind, key, halted) VALUES ('partition', $1, true)"
RECORD = "INSERT INTO ingest_incident (partition, next_offset, log_start, log_end) VALUES ($1, 9, 0, 5)"


pytestmark = pytest.mark.usefixtures("a_daemon")


@pytest.fixture
def asked(cli: Cli, past: Past) -> AskedOfDag:
    return AskedOfDag(cli, past)


async def test_inputs_that_are_missing_are_to_come(asked: AskedOfDag, past: Past) -> None:
    await asked.file("schedule=a & b")
    await past.updated("s://b")

    page, change = await asked.why(), await asked.change()
    for uri in change["uris"]:
        await past.updated(uri, "2")

    assert page["starts"] is False
    assert page["change"][0]["commands"] == ["tidegate datasets publish s://a"]
    assert [(each["input"], each["events"]) for each in page["inputs"]] == [("s://a", 0), ("s://b", 1)]
    assert await asked.runs() == 1


async def test_inputs_that_are_apart_are_to_come_again(asked: AskedOfDag, past: Past) -> None:
    await asked.file("schedule=Timed(a & b, within=timedelta(seconds=1))")
    await past.updated("s://a", "1")
    await anyio.sleep(1.1)
    await past.updated("s://b", "2")

    closed, change = await asked.closed(), await asked.change()
    await past.updated("s://a", "3")

    assert closed == {"condition": {"kind": "outside_window", "within_s": 1}}
    assert change == {"kind": "publish", "inputs": ["s://a"], "uris": ["s://a"]}
    assert await asked.runs() == 1


async def test_events_that_still_come_are_waited_for(asked: AskedOfDag, past: Past) -> None:
    await asked.file("schedule=Timed(a, quiet_for=timedelta(seconds=2))")
    await past.updated("s://a")

    closed, change = await asked.closed(), await asked.change()
    await asked.wait_until(change["until"])

    assert closed == {"timing": {"kind": "debouncing", "until": change["until"]}}
    assert await asked.runs() == 1


async def test_the_time_between_two_runs_is_waited_for(asked: AskedOfDag, past: Past) -> None:
    await asked.file("schedule=Timed(a, min_interval=timedelta(seconds=2))")
    await past.updated("s://a", "1")
    await past.updated("s://a", "2")

    closed, change = await asked.closed(), await asked.change()
    await asked.wait_until(change["until"])

    assert closed == {"timing": {"kind": "rate_limited", "until": change["until"]}}
    assert await asked.runs() == 2


async def test_a_tick_is_waited_for(asked: AskedOfDag) -> None:
    await asked.file("schedule=timedelta(seconds=2), start_date=datetime(2026, 1, 1, tzinfo=UTC)")
    await asked.past.clock("d")
    before = await asked.runs()

    closed, change = await asked.closed(), await asked.change()
    await asked.wait_until(change["until"])

    assert closed == {"timetable": {"kind": "run_after", "at": change["until"]}}
    assert await asked.runs() == before + 1


async def test_where_events_and_time_each_make_runs_either_will_do(asked: AskedOfDag, past: Past) -> None:
    await asked.file('schedule=DatasetOrTime(a, "@yearly")')

    page = await asked.why()
    await past.updated("s://a")

    assert [change["kind"] for change in page["change"]] == ["publish"]
    assert [change["kind"] for change in page["instead"]] == ["wait"]
    assert await asked.runs() == 1


async def test_a_dag_that_is_paused_is_to_be_unpaused_and_what_it_missed_is_told(asked: AskedOfDag, past: Past) -> None:
    await asked.file("schedule=a")
    await asked.cli("dags", "pause", "d")
    await past.updated("s://a", "1")

    page = await asked.why()
    for change in page["change"]:
        for command in change["commands"]:
            if command.startswith("tidegate dags"):
                await asked.cli(*command.split()[1:])
    await past.updated("s://a", "2")

    assert [change["kind"] for change in page["change"]] == ["publish", "unpause"]
    assert [(each["reason"], each["events"]) for each in page["discarded"]] == [("the DAG was paused", 1)]
    assert await asked.runs() == 1


async def test_a_dag_that_is_in_no_file_is_to_be_in_one(asked: AskedOfDag, past: Past) -> None:
    await asked.file("schedule=a")
    await past.file_absent()
    await past.updated("s://a")

    closed, change = await asked.closed(), await asked.change()
    await past.file(DAG.format(dag="schedule=a"), path=change["path"])

    assert closed == {"DAG file": {"kind": "dag_stale"}}
    assert await asked.runs() == 1


async def test_a_dag_at_its_limit_is_to_have_more_room(asked: AskedOfDag, past: Past) -> None:
    await asked.file("schedule=a, max_active_runs=1")
    await past.updated("s://a", "1")
    await past.updated("s://a", "2")

    closed, change = await asked.closed(), await asked.change()
    await asked.file(f"schedule=a, max_active_runs={change['limit']}")

    assert closed == {"run limit": {"kind": "max_active_runs", "limit": 1}}
    assert (change["limit"], await asked.runs()) == (2, 2)


async def test_queued_runs_may_have_their_turn_first(asked: AskedOfDag, past: Past) -> None:
    await asked.file("schedule=a, max_active_runs=1")
    await past.updated("s://a", "1")
    await past.updated("s://a", "2")
    await asked.cli("runs", "trigger", "d", "--run-id", "q")

    change = await asked.change()
    await asked.file(f"schedule=a, max_active_runs={change['limit']}")

    assert change["limit"] == 3
    assert await asked.runs() == 3


async def test_a_dag_without_a_schedule_is_to_be_asked(asked: AskedOfDag) -> None:
    await asked.file("")

    closed = await asked.closed()
    (change,) = (await asked.why())["change"]
    await asked.cli(*change["commands"][0].split()[1:])

    assert closed == {"schedule": {"kind": "no_schedule"}}
    assert await asked.runs() == 1


async def test_a_condition_that_cannot_be_read_is_to_be_mended(asked: AskedOfDag, past: Past) -> None:
    await asked.file("schedule=Dataset('s://a', where='n > 1')")
    await past.database.run(lambda db: db.execute(BREAK))
    await past.updated("s://a", extra={"n": 1})

    closed, change = await asked.closed(), await asked.change()
    await asked.file("schedule=Dataset('s://a', where='n > 0')")

    assert closed["condition"]["kind"] == "condition_broken"
    assert change == {"kind": "mend_file", "path": "daily.py"}
    assert await asked.runs() == 1


async def test_a_partition_that_stands_still_is_told(asked: AskedOfDag, past: Past) -> None:
    await asked.file("schedule=a")
    stop = Incident("tidegate.dataset-updated/3", 9, 0, 5)
    await past.database.run(lambda db: db.execute(HALT, stop.partition))
    await past.database.run(lambda db: db.execute(RECORD, stop.partition))

    closed = await asked.closed()
    resumed = await past.database.run(leases.resume, stop, 0, "me")

    assert closed["intake"] == {"kind": "intake_halted", "partitions": [stop.partition]}
    assert resumed
    assert "intake" not in await asked.closed()


async def test_without_a_daemon_nothing_is_decided(asked: AskedOfDag, past: Past) -> None:
    await asked.file("schedule=a")
    await past.no_daemon()

    before = await asked.closed()
    await past.daemon()

    assert before["daemons"] == {"kind": "no_daemon"}
    assert list(await asked.closed()) == ["condition"]


async def test_a_dag_that_never_got_its_inputs_is_a_page_for_people(asked: AskedOfDag, past: Past) -> None:
    await asked.file("schedule=a & b")
    await past.updated("s://b")

    out = re.sub(r"(?<= )\ds(?=[ )])", "0s", (await asked.cli("dags", "why-not", "d")).out)

    assert out.startswith("d\n  waits for  its condition to hold: no event is pending of s://a (condition)\n\ngates\n")
    assert "\ncondition    closed  0s   inputs 1 of 2; pending 1; version 1\n" in out
    assert "\ninputs\n○ all of\n├── ○ s://a  (nothing pending)\n└── ✓ s://b  (1 event pending for 0s)\n" in out
    assert out.endswith("\nthe smallest change that makes a run\n  an event of s://a\n    tidegate datasets publish s://a\n")


async def test_a_dag_that_does_not_exist_is_refused(asked: AskedOfDag) -> None:
    complaint = "tidegate: there is no DAG 'd'; `tidegate dags list` shows those there are\n"

    assert await asked.cli("dags", "why-not", "d") == (1, "", complaint)
