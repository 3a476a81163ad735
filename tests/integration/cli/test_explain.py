"""`tidegate runs explain`: the origin of a run and its stages."""

import getpass

import pytest

from tests.integration.cli.conftest import Cli
from tests.integration.cli.history import DAEMON, HOST, History

ONE = 'from tidegate import Dag, Dataset\nwith Dag("d", {dag}) as dag: dag.command("a", ["true"])\n'

DAILY = """
from datetime import datetime, UTC
from tidegate import Dag
with Dag("d", schedule="@daily", start_date=datetime(2013, 1, 1, tzinfo=UTC), end_date=datetime(2013, 1, 1, tzinfo=UTC),
         catchup=True) as dag:
    dag.command("a", ["true"])
"""


async def test_a_run_of_events_names_them_and_its_condition(cli: Cli, history: History) -> None:
    await history.file()
    await history.run()

    page = (await cli("runs", "explain", "daily_delays", "latest", "--json")).json

    assert [(event["uri"], event["source"], event["id"], event["extra"]) for event in page["events"]] == [
        ("lake://flights", "importer", "f-1", {"day": "2013-01-01"}),
        ("lake://weather", "importer", "w-1", {}),
    ]
    assert page["condition"] == "lake://flights & lake://weather"
    assert (page["origin"]["version"], page["origin"]["path"], page["origin"]["run_type"]) == (1, "daily.py", "dataset")
    assert (page["origin"]["creator"], page["origin"]["cause"]) == (DAEMON, "dataset_updated")
    assert page["cause"] == "dataset events arrived"


async def test_a_run_stays_with_the_condition_of_its_version(cli: Cli, history: History) -> None:
    await history.file()
    await history.run()
    await history.file(ONE.format(dag="").replace('"d"', '"daily_delays"'))

    page = (await cli("runs", "explain", "daily_delays", "latest", "--json")).json

    assert (page["condition"], page["origin"]["version"]) == ("lake://flights & lake://weather", 1)


BOTH = """
from tidegate import Dag, Dataset
with Dag("d", schedule=Dataset("lake://flights") & Dataset("lake://weather")) as dag: dag.empty("a")
"""


async def test_a_run_whose_events_are_older_than_the_retention_says_how_many_there_were(cli: Cli, history: History) -> None:
    await history.file(BOTH)
    await history.run()
    await history.retention()

    page = (await cli("runs", "explain", "d", "latest", "--json")).json
    text = (await cli("runs", "explain", "d", "latest")).out

    assert (page["origin"]["events"], page["events"], page["forgotten"]) == (2, [], 2)
    assert "made by    2 dataset events\n" in text
    assert "consumed events\n  2 older than the retention of the ledger\n" in text


async def test_a_run_some_of_whose_events_still_wait_for_others_has_those(cli: Cli, history: History) -> None:
    waits = BOTH.replace('"d"', '"waits"').replace("weather", "never")
    await history.file(BOTH + waits)
    await history.run()
    await history.retention()

    page = (await cli("runs", "explain", "d", "latest", "--json")).json

    assert ([event["id"] for event in page["events"]], page["forgotten"]) == (["f-1"], 1)


async def test_a_run_of_an_earlier_version_does_not_know_how_many_there_were(cli: Cli, history: History) -> None:
    await history.file(BOTH)
    await history.run()
    await history.database.pool.execute("UPDATE dag_run SET events = NULL")
    before = (await cli("runs", "explain", "d", "latest", "--json")).json
    await history.retention()

    text = (await cli("runs", "explain", "d", "latest")).out

    assert (before["origin"]["events"], len(before["events"])) == (2, 2)
    assert "made by    dataset events, all older than the retention\n" in text


async def test_the_stages_of_a_run_follow_each_other(cli: Cli, history: History) -> None:
    await history.file()
    await history.run()
    (attempt,) = await history.attempts_begin()
    await history.attempt_ends(attempt.submission_id)

    page = (await cli("runs", "explain", "daily_delays", "latest", "--json")).json

    assert [stage["name"] for stage in page["stages"]] == [
        "the last event occurred",
        "it arrived",
        "the run was created",
        "the run started",
        "first task ready",
        "first task admitted",
        "first task submitted",
        "first task started",
        "first task ended",
    ]
    assert all(stage["took_s"] >= 0 for stage in page["stages"][1:])
    assert [(each["task"], each["try_number"], each["state"]) for each in page["attempts"]] == [("join", 1, "succeeded")]
    assert [move["state"] for move in page["journal"]] == ["queued", "running"]


async def test_a_run_by_hand_names_who_asked_for_it(cli: Cli, history: History) -> None:
    await history.file(ONE.format(dag=""))
    await cli("runs", "trigger", "d", "--run-id", "r")

    page = (await cli("runs", "explain", "d", "r", "--json")).json

    assert (page["origin"]["creator"], page["cause"]) == (f"{getpass.getuser()}@{HOST}", "it was requested")
    assert (page["events"], page["condition"]) == ([], "")


async def test_a_timed_run_was_made_by_the_clock(cli: Cli, history: History) -> None:
    await history.file(DAILY)
    await history.clock("d")

    page = (await cli("runs", "explain", "d", "latest", "--json")).json

    assert (page["origin"]["creator"], page["origin"]["cause"]) == (DAEMON, "schedule_due")
    assert page["stages"][0]["name"] == "the run was due"


async def test_a_run_that_waited_for_another_was_made_when_that_one_ended(cli: Cli, history: History) -> None:
    await history.file(ONE.format(dag='schedule=Dataset("s://a"), max_active_runs=1'))
    await history.updated("s://a", "1")
    await history.updated("s://a", "2")
    (attempt,) = await history.attempts_begin()
    await history.attempt_ends(attempt.submission_id)

    page = (await cli("runs", "explain", "d", "latest", "--json")).json

    assert page["cause"] == "a task ended, and with it a run ahead of it"
    assert [event["id"] for event in page["events"]] == ["2"]


async def test_an_explanation_is_a_page_for_people(cli: Cli, history: History) -> None:
    await history.file()
    await history.run()

    out = (await cli("runs", "explain", "daily_delays", "latest")).out

    assert "  made by    2 dataset events\n  because    dataset events arrived\n" in out
    assert f"  by         {DAEMON}\n" in out
    assert [title for title in ("consumed events", "stages", "attempts", "journal") if f"\n{title}\n" in out] == [
        "consumed events",
        "stages",
        "attempts",
        "journal",
    ]


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        (("nope", "r"), "there is no DAG 'nope'; `tidegate dags list` shows all"),
        (("d", "r"), "DAG 'd' has no run 'r'; `tidegate runs list d` shows all"),
        (("d", "latest"), "DAG 'd' has no runs yet"),
    ],
)
async def test_what_does_not_exist_cannot_be_explained(cli: Cli, history: History, args: tuple[str, str], complaint: str) -> None:
    await history.file(ONE.format(dag=""))

    assert await cli("runs", "explain", *args) == (1, "", f"tidegate: {complaint}\n")
