"""`tidegate dags next` on a real database."""

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.integration.cli.conftest import Cli
from tests.integration.cli.history import History
from tests.integration.cli.schedules import NIGHTLY, PAST, WHEN_ASKED

PERIODS = """
from datetime import datetime, UTC
from tidegate import Dag, cron
with Dag("periods", schedule=cron("0 0 * * *", mode="interval"), start_date=datetime(2040, 1, 1, tzinfo=UTC)):
    pass
"""


async def test_next_runs_are_listed_in_utc_and_on_the_clocks_of_the_dag(cli: Cli, history: History) -> None:
    await history.file(NIGHTLY)

    answer = await cli("dags", "next", "nightly", "-n", "2")

    first, first_here = "2040-03-24 02:00:00Z", "2040-03-24 03:00:00+01:00"
    second, second_here = "2040-03-25 01:00:00Z", "2040-03-25 03:00:00+02:00"
    titles, *runs = answer.out.splitlines()
    assert titles.split("  ")[-1] == "RUN AFTER IN Europe/Zurich"
    assert [" ".join(run.split()) for run in runs] == [
        " ".join([first, first, first_here, first_here]),
        " ".join([second, second, second_here, second_here]),
    ]


async def test_next_runs_in_json_have_both_times(cli: Cli, history: History) -> None:
    await history.file(NIGHTLY)

    (run,) = (await cli("dags", "next", "nightly", "-n", "1", "--json")).json

    at = "2040-03-24T02:00:00Z"
    here = "2040-03-24T03:00:00+01:00"
    names = ("logical_date", "data_interval_start", "data_interval_end", "run_after")
    assert run == {**dict.fromkeys(names, at), "timezone": "Europe/Zurich", "local": dict.fromkeys(names, here)}


async def test_a_run_of_a_period_is_due_at_its_end(cli: Cli, history: History) -> None:
    await history.file(PERIODS)

    answer = await cli("dags", "next", "periods", "-n", "1")

    assert answer.out.splitlines()[0].split() == ["LOGICAL", "DATE", "INTERVAL", "START", "INTERVAL", "END", "RUN", "AFTER"]
    assert answer.out.splitlines()[1].split("  ") == [
        "2040-01-01 00:00:00Z",
        "2040-01-01 00:00:00Z",
        "2040-01-02 00:00:00Z",
        "2040-01-02 00:00:00Z",
    ]


async def test_runs_after_a_time_may_be_asked_for(cli: Cli, history: History) -> None:
    await history.file(NIGHTLY)

    here = (await cli("dags", "next", "nightly", "-n", "1", "--after", "2040-06-01T03:00", "--json")).json
    in_utc = (await cli("dags", "next", "nightly", "-n", "1", "--after", "2040-06-01T00:59Z", "--json")).json

    assert [run["local"]["run_after"] for run in (*here, *in_utc)] == ["2040-06-02T03:00:00+02:00", "2040-06-01T03:00:00+02:00"]


async def test_a_timetable_that_is_over_plans_no_more(cli: Cli, history: History) -> None:
    await history.file(PAST)

    answer = await cli("dags", "next", "past", "--after", "2013-01-02T06:00")

    assert answer == (0, "", "its timetable plans no more runs\n")


async def test_the_runs_of_a_paused_dag_are_said_not_to_start(cli: Cli, history: History) -> None:
    await history.file(PAST)
    await cli("dags", "pause", "past")

    answer = await cli("dags", "next", "past", "--json")

    assert [run["run_after"] for run in answer.json] == ["2013-01-01T06:00:00Z", "2013-01-02T06:00:00Z"]
    assert answer.err == "past is paused: none of these runs starts until that changes\n"


async def test_a_logical_date_that_a_user_took_is_passed_over(cli: Cli, history: History) -> None:
    await history.file(NIGHTLY)
    await cli("runs", "trigger", "nightly", "--logical-date", "2040-03-24T02:00")

    (run,) = (await cli("dags", "next", "nightly", "-n", "1", "--json")).json

    assert run["logical_date"] == "2040-03-25T01:00:00Z"


@pytest.mark.parametrize(
    ("date", "code", "said"),
    [
        (
            "2040-03-25",
            0,
            "is on the schedule; its first run has the logical date 2040-03-25 01:00:00Z (2040-03-25 03:00:00+02:00)",
        ),
        ("2040-03-25T03:00", 0, "is on the schedule; its first run has the logical date 2040-03-25 01:00:00Z"),
        ("2040-03-25T01:00Z", 0, "is on the schedule; its first run has the logical date 2040-03-25 01:00:00Z"),
        ("2040-03-25T04:00", 1, "is not on the schedule; the next logical date is 2040-03-26 01:00:00Z"),
        ("2040-03-23", 1, "is not on the schedule; the next logical date is 2040-03-24 02:00:00Z"),
        ("2041-01-01", 1, "is not on the schedule; no later date is"),
    ],
)
async def test_a_date_is_on_the_schedule_or_not(cli: Cli, history: History, date: str, code: int, said: str) -> None:
    await history.file(NIGHTLY)

    answer = await cli("dags", "next", "nightly", "--on", date)

    assert (answer.code, answer.err) == (code, "")
    assert answer.out.startswith(f"{date} {said}")


@pytest.mark.parametrize(("date", "expected"), [("2040-03-25", ["run", True]), ("2040-03-23", ["next", False])])
async def test_whether_a_date_is_on_the_schedule_is_one_json_object(
    cli: Cli, history: History, date: str, expected: list[Any]
) -> None:
    await history.file(NIGHTLY)

    answer = await cli("dags", "next", "nightly", "--on", date, "--json")

    there, is_on = expected
    assert (answer.code, answer.json["on_schedule"]) == (0 if is_on else 1, is_on)
    assert {name for name in ("run", "next") if answer.json[name] is not None} == {there}


async def test_the_next_run_without_a_start_date_is_not_far(cli: Cli, history: History) -> None:
    await history.file('from tidegate import Dag\nwith Dag("often", schedule="* * * * *"): pass\n')

    (run,) = (await cli("dags", "next", "often", "-n", "1", "--json")).json

    assert abs((datetime.fromisoformat(run["run_after"]) - datetime.now(UTC)).total_seconds()) < 125


@pytest.mark.parametrize("wrong", [("--on", "soon"), ("--after", "2040-02-30"), ("--on", "2040-01-01", "--after", "2040-01-01")])
async def test_what_is_no_time_is_wrong_usage(cli: Cli, history: History, wrong: tuple[str, ...]) -> None:
    await history.file(NIGHTLY)

    answer = await cli("dags", "next", "nightly", *wrong)

    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"tidegate: invalid value for {wrong[0]}: ")


async def test_a_dag_that_does_not_run_by_time_says_so(cli: Cli, history: History) -> None:
    await history.file(WHEN_ASKED)

    answer = await cli("dags", "next", "when_asked", "--json")

    assert answer == (
        1,
        "",
        "tidegate: DAG 'when_asked' does not run by time; `tidegate dags show when_asked` shows what starts it\n",
    )
