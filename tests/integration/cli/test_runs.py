"""`tidegate runs` on a real database."""

from datetime import UTC, datetime

import anyio
import asyncpg
import pytest

from tests.integration.cli.conftest import Cli
from tests.integration.cli.past import HOST, Past
from tidegate.events.publisher import Outcome

SINGLE = """
from tidegate import Dag
with Dag("single") as dag:
    dag.command("only", ["true"])
"""


async def test_runs_are_listed_newest_first(cli: Cli, past: Past) -> None:
    await past.file(SINGLE)
    for run_id in ("one", "two", "three"):
        await cli("runs", "trigger", "single", "--run-id", run_id)

    answer = await cli("runs", "list", "single", "--limit", "2")

    assert [row[1] for row in answer.rows] == ["RUN", "three", "two"]


async def test_runs_are_listed_by_state(cli: Cli, past: Past) -> None:
    await past.file(SINGLE)
    for run_id in ("ended", "running"):
        await cli("runs", "trigger", "single", "--run-id", run_id)
    attempt, _ = await past.attempts_begin()
    await past.attempt_ends(attempt.submission_id)

    answer = await cli("runs", "list", "--state", "success", "--json")

    assert [run["run_id"] for run in answer.json] == ["ended"]


async def test_the_runs_of_a_dag_that_does_not_exist_are_an_error(cli: Cli) -> None:
    answer = await cli("runs", "list", "nope")

    assert answer == (1, "", "tidegate: there is no DAG 'nope'; `tidegate dags list` shows those there are\n")


async def test_a_run_tells_what_it_consumed_how_it_moved_and_why_its_tries_failed(cli: Cli, past: Past) -> None:
    await past.file()
    await past.run()
    (first,) = await past.attempts_begin()
    await past.attempt_ends(first.submission_id, "failed", "exit code 1: boom")
    (second,) = await past.attempts_begin()
    await past.attempt_ends(second.submission_id, "failed", "exit code 1: again")

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


async def test_a_run_is_shown_for_people(cli: Cli, past: Past) -> None:
    await past.file()
    await past.run()
    (attempt,) = await past.attempts_begin()
    await past.attempt_ends(attempt.submission_id, "failed", "exit code 1: boom")

    answer = await cli("runs", "show", "daily_delays", "latest")

    assert '  importer  f-1  {"day":"2013-01-01"}\n' in answer.out
    assert "  exit code 1: boom\n" in answer.out
    assert ["2", "running"] in [row[:2] for row in answer.rows]


async def test_a_run_that_does_not_exist_is_one_sentence(cli: Cli, past: Past) -> None:
    await past.file(SINGLE)

    named, newest = await cli("runs", "show", "single", "nope"), await cli("runs", "show", "single", "latest")

    assert named.err == "tidegate: DAG 'single' has no run 'nope'; `tidegate runs list single` shows those there are\n"
    assert newest.err == "tidegate: DAG 'single' has no runs yet\n"
    assert named.code == newest.code == 1


async def test_a_triggered_run_has_its_conf(cli: Cli, past: Past) -> None:
    await past.file(SINGLE)

    answer = await cli("runs", "trigger", "single", "--conf", '{"day": "2013-01-01"}', "--run-id", "fix-1")

    assert answer == (0, "triggered single fix-1\n", "")
    page = (await cli("runs", "show", "single", "fix-1", "--json")).json
    assert (page["conf"], page["run"]["run_type"]) == ({"day": "2013-01-01"}, "manual")


async def test_a_run_without_an_id_is_named_by_the_time(cli: Cli, past: Past) -> None:
    await past.file(SINGLE)

    run = (await cli("runs", "trigger", "single", "--json")).json

    assert (datetime.now(UTC) - datetime.fromisoformat(run["run_id"].removeprefix("manual__"))).total_seconds() < 60


async def test_a_triggered_run_wakes_the_daemons(cli: Cli, past: Past, dsn: str) -> None:
    await past.file(SINGLE)
    heard: list[object] = []
    listener = await asyncpg.connect(dsn)
    await listener.add_listener("tidegate", lambda *said: heard.append(said[3]))

    await cli("runs", "trigger", "single")

    await listener.execute("SELECT 1")
    await listener.close()
    assert [set(str(said).split(",")) for said in heard] == [{"ADMIT", "RELAY"}]


async def test_the_same_run_is_not_made_twice(cli: Cli, past: Past) -> None:
    await past.file(SINGLE)
    await cli("runs", "trigger", "single", "--run-id", "a")

    answer = await cli("runs", "trigger", "single", "--run-id", "a", "--json")

    assert answer == (1, "", "tidegate: DAG 'single' already has a run 'a'\n")


async def test_a_run_of_a_paused_dag_says_that_it_waits(cli: Cli, past: Past) -> None:
    await past.file(SINGLE)
    await cli("dags", "pause", "single")

    answer = await cli("runs", "trigger", "single", "--run-id", "a")

    assert (answer.code, answer.out) == (0, "triggered single a\n")
    assert answer.err == "it is queued: the DAG is paused, in no file, or has as many active runs as it may\n"


@pytest.mark.parametrize("conf", ["[1]", "{", '"x"', "{1: 2}", "[" * 100_000])
async def test_a_conf_that_is_no_object_is_wrong_usage(cli: Cli, past: Past, conf: str) -> None:
    await past.file(SINGLE)

    answer = await cli("runs", "trigger", "single", "--conf", conf)

    assert answer.code == 2
    assert answer.err.startswith("tidegate: invalid value for --conf: a JSON object is needed")
    assert (await cli("runs", "list", "--json")).json == []


@pytest.mark.parametrize("run_id", ["", "a b", "a/b", "a\n", "latest", "x" * 251, "é"])
async def test_a_run_id_that_cannot_be_one_is_wrong_usage(cli: Cli, past: Past, run_id: str) -> None:
    await past.file(SINGLE)

    answer = await cli("runs", "trigger", "single", "--run-id", run_id)

    assert answer.code == 2
    assert (await cli("runs", "list", "--json")).json == []


async def test_a_run_is_followed_to_its_end(cli: Cli, past: Past) -> None:
    await past.file(SINGLE)

    async with anyio.create_task_group() as tg:
        tg.start_soon(_end_the_only_attempt, past, "succeeded")
        answer = await cli("runs", "trigger", "single", "--wait", "--json")

    assert (answer.code, answer.json["state"]) == (0, "success")
    assert [line.split("Z  ")[1] for line in answer.err.splitlines()] == [
        "running, 0 of 1 tasks ended",
        "success, 1 of 1 tasks ended",
    ]


async def test_a_followed_run_that_fails_says_why(cli: Cli, past: Past) -> None:
    await past.file(SINGLE)

    async with anyio.create_task_group() as tg:
        tg.start_soon(_end_the_only_attempt, past, "failed")
        answer = await cli("runs", "trigger", "single", "--wait", "--run-id", "a")

    assert (answer.code, answer.out) == (1, "triggered single a\n")
    assert answer.err.splitlines()[-1] == "task only failed: exit code 1: boom"


async def _end_the_only_attempt(past: Past, outcome: Outcome) -> None:
    with anyio.fail_after(20):
        while not (begun := await past.attempts_begin()):
            await anyio.sleep(0.05)
    await past.attempt_ends(begun[0].submission_id, outcome, "exit code 1: boom" if outcome == "failed" else "")
