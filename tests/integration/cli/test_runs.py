"""`tidegate runs` on a real database."""

import pytest

from tests.integration.cli.conftest import Cli
from tests.integration.cli.history import HOST, History
from tests.integration.cli.sources import SINGLE, TIMED


async def test_runs_are_listed_newest_first(cli: Cli, history: History) -> None:
    await history.file(SINGLE)
    for run_id in ("one", "two", "three"):
        await cli("runs", "trigger", "single", "--run-id", run_id)

    answer = await cli("runs", "list", "single", "--limit", "2")

    assert [row[1] for row in answer.rows] == ["RUN", "three", "two"]


async def test_runs_are_listed_by_state(cli: Cli, history: History) -> None:
    await history.file(SINGLE)
    for run_id in ("ended", "running"):
        await cli("runs", "trigger", "single", "--run-id", run_id)
    attempt, _ = await history.attempts_begin()
    await history.attempt_ends(attempt.submission_id)

    answer = await cli("runs", "list", "--state", "success", "--json")

    assert [run["run_id"] for run in answer.json] == ["ended"]


async def test_runs_are_listed_with_their_logical_dates(cli: Cli, history: History) -> None:
    await history.file(TIMED)
    await history.clock("timed")

    lines = (await cli("runs", "list", "timed", "-n", "1")).out.splitlines()

    assert "  scheduled  running  0/1    2013-01-02 06:00:00Z  " in lines[1]


async def test_runs_are_listed_by_what_made_them(cli: Cli, history: History) -> None:
    await history.file(TIMED)
    await history.clock("timed")
    await cli("runs", "trigger", "timed", "--run-id", "mine")

    by_hand = (await cli("runs", "list", "--type", "manual", "--json")).json
    by_time = (await cli("runs", "list", "--type", "scheduled", "--json")).json

    assert [run["run_id"] for run in by_hand] == ["mine"]
    assert {run["run_type"] for run in by_time} == {"scheduled"}


@pytest.mark.parametrize(
    ("options", "days"),
    [
        (("--since", "2013-01-02"), [2]),
        (("--until", "2013-01-01T06:00"), [1]),
        (("--since", "2013-01-01T07:00+01:00", "--until", "2013-01-03"), [2, 1]),
        (("--since", "2013-01-03"), []),
    ],
)
async def test_runs_are_listed_by_their_logical_dates(
    cli: Cli, history: History, options: tuple[str, ...], days: list[int]
) -> None:
    await history.file(TIMED)
    await history.clock("timed")

    found = (await cli("runs", "list", "timed", *options, "--json")).json

    assert [run["logical_date"] for run in found] == [f"2013-01-0{day}T06:00:00Z" for day in days]


async def test_runs_without_a_logical_date_are_listed_by_when_they_may_start(cli: Cli, history: History) -> None:
    await history.file(SINGLE)
    await cli("runs", "trigger", "single", "--run-id", "soon")
    await cli("runs", "trigger", "single", "--run-id", "late", "--run-after", "2040-01-01")

    found = (await cli("runs", "list", "--since", "2040-01-01", "--json")).json

    assert [run["run_id"] for run in found] == ["late"]


@pytest.mark.parametrize("wrong", [("--type", "cron"), ("--since", "yesterday"), ("--until", "2013-02-30")])
async def test_a_filter_that_cannot_be_is_wrong_usage(cli: Cli, wrong: tuple[str, str]) -> None:
    answer = await cli("runs", "list", *wrong)

    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"tidegate: invalid value for '{wrong[0]}': ")


async def test_the_runs_of_a_dag_that_does_not_exist_are_an_error(cli: Cli) -> None:
    answer = await cli("runs", "list", "nope")

    assert answer == (1, "", "tidegate: there is no DAG 'nope'; `tidegate dags list` shows all\n")


async def test_a_run_tells_what_it_consumed_how_it_moved_and_why_its_tries_failed(cli: Cli, history: History) -> None:
    await history.file()
    await history.run()
    (first,) = await history.attempts_begin()
    await history.attempt_ends(first.submission_id, "failed", "exit code 1: boom")
    (second,) = await history.attempts_begin()
    await history.attempt_ends(second.submission_id, "failed", "exit code 1: again")

    page = (await cli("runs", "show", "daily_delays", "latest", "--json")).json

    assert [(event["uri"], event["event_id"], event["extra"]) for event in page["events"]] == [
        ("lake://flights", "f-1", {"day": "2013-01-01"}),
        ("lake://weather", "w-1", {}),
    ]
    assert [(move["seq"], move["state"]) for move in page["journal"]] == [(1, "queued"), (2, "running"), (3, "failed")]
    assert [(each["task"]["task_id"], each["task"]["state"]) for each in page["tasks"]] == [
        ("join", "failed"),
        ("report", "upstream_failed"),
        ("done", "upstream_failed"),
    ]
    assert [(each["try_number"], each["reason"], each["host"]) for each in page["tasks"][0]["attempts"]] == [
        (1, "exit code 1: boom", HOST),
        (2, "exit code 1: again", HOST),
    ]


async def test_a_run_is_shown_for_people(cli: Cli, history: History) -> None:
    await history.file()
    await history.run()
    (attempt,) = await history.attempts_begin()
    await history.attempt_ends(attempt.submission_id, "failed", "exit code 1: boom")

    answer = await cli("runs", "show", "daily_delays", "latest")

    assert '  importer  f-1  -         {"day":"2013-01-01"}\n' in answer.out
    assert "  exit code 1: boom\n" in answer.out
    assert ["2", "running"] in [row[:2] for row in answer.rows]


async def test_a_run_is_shown_with_how_many_of_its_events_are_older_than_the_retention(cli: Cli, history: History) -> None:
    await history.file(
        'from tidegate import Dag, Dataset\nwith Dag("d", schedule=Dataset("lake://flights")) as dag: dag.empty("a")\n'
    )
    await history.updated("lake://flights")
    await history.retention()

    page = (await cli("runs", "show", "d", "latest", "--json")).json
    text = (await cli("runs", "show", "d", "latest")).out

    assert (page["events"], page["forgotten"]) == ([], 1)
    assert "consumed events\n  1 older than the retention of the ledger\n" in text


async def test_a_run_that_does_not_exist_is_one_sentence(cli: Cli, history: History) -> None:
    await history.file(SINGLE)

    named, newest = await cli("runs", "show", "single", "nope"), await cli("runs", "show", "single", "latest")

    assert named.err == "tidegate: DAG 'single' has no run 'nope'; `tidegate runs list single` shows all\n"
    assert newest.err == "tidegate: DAG 'single' has no runs yet\n"
    assert named.code == newest.code == 1
