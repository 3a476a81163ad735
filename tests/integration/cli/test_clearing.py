"""`tidegate runs clear` and `tidegate tasks clear` on a real database."""

from typing import Any

import pytest

from tests.integration.cli.conftest import Cli
from tests.integration.cli.failed_run import THREE, failed, states
from tests.integration.cli.history import History

WITHOUT_THIRD = THREE.replace(' >> dag.command("third", ["true"])', "")
OTHER = 'from tidegate import Dag\nwith Dag("three") as dag: dag.command("other", ["true"])\n'
RUN: dict[str, Any] = {"run_id": "a", "logical_date": None, "consumers": [], "backfill_id": None}
DATED = """
from datetime import datetime, UTC
from tidegate import Dag
with Dag("dated", schedule="@daily", start_date=datetime(2013, 1, 1, tzinfo=UTC), end_date=datetime(2013, 1, 3, tzinfo=UTC),
         catchup=True) as dag:
    dag.command("only", ["true"])
"""


async def test_a_cleared_run_is_queued_with_all_its_tasks_and_runs_again(cli: Cli, history: History) -> None:
    await failed(history, cli)

    answer = await cli("runs", "clear", "three", "a", "--yes")
    await history.clock("three")
    await history.reconsidered()

    assert answer.code == 0
    assert answer.rows[:2] == [
        ["RUN", "LOGICAL", "DATE", "STATE", "TASKS"],
        ["a", "-", "failed", "first,", "second,", "third"],
    ]
    assert answer.out.splitlines()[-1] == "cleared 3 tasks of 1 run"
    assert await states(cli) == {"first": "scheduled", "second": "none", "third": "none"}


async def test_what_was_cleared_is_one_json_object(cli: Cli, history: History) -> None:
    await failed(history, cli)

    answer = await cli("runs", "clear", "three", "latest", "--only-failed", "--yes", "--json")

    assert answer.json == {
        "dag_id": "three",
        "runs": [{**RUN, "state": "failed", "tasks": ["second", "third"]}],
    }
    assert await states(cli) == {"first": "success", "second": "none", "third": "none"}


@pytest.mark.parametrize(
    ("options", "cleared"),
    [
        (("--task", "second"), ["second", "third"]),
        (("--task", "second", "--no-downstream"), ["second"]),
        (("--task", "second", "--upstream"), ["first", "second", "third"]),
        (("--task", "second", "--upstream", "--no-downstream"), ["first", "second"]),
        (("--task", "first", "--task", "third", "--no-downstream"), ["first", "third"]),
        (("--task", "first", "--only-failed"), ["second", "third"]),
    ],
)
async def test_tasks_are_chosen_by_name_and_by_what_is_around_them(
    cli: Cli, history: History, options: tuple[str, ...], cleared: list[str]
) -> None:
    await failed(history, cli)

    answer = await cli("runs", "clear", "three", "a", *options, "--yes", "--json")

    assert answer.json["runs"][0]["tasks"] == cleared
    assert [task for task, state in (await states(cli)).items() if state == "none"] == cleared


async def test_runs_are_cleared_by_their_logical_dates(cli: Cli, history: History) -> None:
    await history.file(DATED)
    await history.clock("dated")
    for attempt in await history.attempts_begin():
        await history.attempt_ends(attempt.submission_id)

    answer = await cli("runs", "clear", "dated", "--since", "2013-01-02", "--until", "2013-01-03", "--yes", "--json")

    assert [run["logical_date"] for run in answer.json["runs"]] == ["2013-01-02T00:00:00Z", "2013-01-03T00:00:00Z"]
    cleared = (await cli("runs", "list", "dated", "--json")).json
    assert [run["state"] for run in cleared] == ["queued", "queued", "success"]


async def test_one_end_of_a_time_is_enough(cli: Cli, history: History) -> None:
    await history.file(DATED)
    await history.clock("dated")
    for attempt in await history.attempts_begin():
        await history.attempt_ends(attempt.submission_id)

    answer = await cli("runs", "clear", "dated", "--until", "2013-01-01", "--yes")

    assert answer.out.splitlines()[1:] == [
        "scheduled__2013-01-01T00:00:00+00:00  2013-01-01 00:00:00Z  success  only",
        "cleared 1 task of 1 run",
    ]


async def test_a_task_at_work_is_said_to_be_cleared_too(cli: Cli, history: History) -> None:
    await history.file(THREE)
    await cli("runs", "trigger", "three", "--run-id", "a")
    await history.attempts_begin()

    answer = await cli("runs", "clear", "three", "a", "--yes", "--json")

    assert answer.json["runs"] == [{**RUN, "state": "running", "tasks": ["first"]}]


async def test_a_run_may_go_on_with_the_newest_version(cli: Cli, history: History) -> None:
    await failed(history, cli)
    await history.file(WITHOUT_THIRD)

    answer = await cli("runs", "clear", "three", "a", "--only-failed", "--newest-version", "--yes", "--json")

    assert answer.json["runs"][0]["tasks"] == ["second"]
    assert (await cli("runs", "list", "--json")).json[0]["version"] == 2


async def test_tasks_that_the_newest_version_adds_are_said_to_run(cli: Cli, history: History) -> None:
    await failed(history, cli)
    await history.file(OTHER)

    answer = await cli("runs", "clear", "three", "a", "--newest-version", "--yes", "--json")

    assert [run["tasks"] for run in answer.json["runs"]] == [["other"]]
    assert (await states(cli))["other"] == "none"


async def test_a_cleared_task_does_not_show_what_an_earlier_try_did(cli: Cli, history: History) -> None:
    await failed(history, cli)

    await cli("runs", "clear", "three", "a", "--yes")

    assert (await cli("tasks", "list", "three", "a")).rows[2] == ["second", "none", "1", "-", "-", "-"]


async def test_tasks_are_cleared_by_name(cli: Cli, history: History) -> None:
    await failed(history, cli)

    answer = await cli("tasks", "clear", "three", "latest", "second", "first", "--no-downstream", "--yes")

    assert answer.out.splitlines()[-1] == "cleared 2 tasks of 1 run"
    assert await states(cli) == {"first": "none", "second": "none", "third": "upstream_failed"}


async def test_cleared_tasks_are_one_json_object(cli: Cli, history: History) -> None:
    await failed(history, cli)

    answer = await cli("tasks", "clear", "three", "a", "third", "--upstream", "--only-failed", "--yes", "--json")

    assert [run["tasks"] for run in answer.json["runs"]] == [["second", "third"]]


CHAINED = """
from tidegate import Dag, Dataset
a = Dataset("lake://a")
with Dag("writer") as dag: dag.command("write", ["true"], outlets=[a]) >> dag.command("rest", ["true"])
with Dag("reader", schedule=a) as dag: dag.command("read", ["true"])
"""


async def consumed(history: History, cli: Cli) -> str:
    """A run whose outlet was consumed; the id of the run that consumed it."""
    await history.file(CHAINED)
    await cli("runs", "trigger", "writer", "--run-id", "w")
    for _ in range(2):
        await history.worked()
    await history.relayed()
    await history.worked()
    (run,) = (await cli("runs", "list", "reader", "--json")).json
    return str(run["run_id"])


async def test_a_clear_lists_the_runs_that_consumed_what_it_writes(cli: Cli, history: History) -> None:
    reader = await consumed(history, cli)

    answer = await cli("runs", "clear", "writer", "w", "--yes")
    said = await cli("runs", "show", "reader", reader)

    assert answer.out.splitlines()[3:6] == [
        "CONSUMER  RUN" + " " * (len(reader) - 1) + "STATE    DATASET   WRITTEN BY",
        f"reader    {reader}  success  lake://a  writer w",
        "1 run of 1 DAG consumed what these tasks wrote, or what followed from it. They stay as they are, with the data that they"
        " have read. --cascade runs them again, --announce publishes new events.",
    ]
    assert "lake://a is written again: task write of writer w is none since it was cleared" in said.out


async def test_a_cascade_names_its_backfill_and_runs_the_consumer_again(cli: Cli, history: History) -> None:
    reader = await consumed(history, cli)

    answer = await cli("tasks", "clear", "writer", "w", "write", "--cascade", "--yes")
    for _ in range(3):
        await history.backfilled()
        await history.reconsidered()
        await history.worked()
    await history.backfilled()

    assert answer.out.splitlines()[-1] == (
        "cleared 2 tasks of 1 run; backfill 1 runs the consumers again: `tidegate backfills show 1`"
    )
    assert (await cli("backfills", "list", "--json")).json[0]["state"] == "success"
    assert [task["try_number"] for task in (await cli("tasks", "list", "reader", reader, "--json")).json] == [2]


async def test_one_instance_is_cleared_by_its_name(cli: Cli, history: History) -> None:
    await history.file(
        'from tidegate import Dag\nwith Dag("m") as dag:\n    names = dag.command("names", ["true"])\n'
        '    names >> dag.command("load", ["true"]).expand(over=names)\n'
    )
    await cli("runs", "trigger", "m", "--run-id", "a")
    (attempt,) = await history.attempts_begin()
    await history.attempt_ends(attempt.submission_id, result=["x", "y"])
    await history.worked()

    answer = await cli("tasks", "clear", "m", "a", "load[1]", "--yes", "--json")
    unknown = await cli("tasks", "clear", "m", "a", "load[2]", "--yes")
    await history.clock("m")
    await history.reconsidered()

    assert answer.json["runs"][0]["tasks"] == ["load[1]"]
    assert unknown.err == "tidegate: DAG 'm' has no task 'load[2]' in these runs; its tasks are names, load\n"
    tasks = (await cli("tasks", "list", "m", "a", "--json")).json
    assert [(task["task_id"], task["map_index"], task["state"]) for task in tasks] == [
        ("names", None, "success"),
        ("load", None, "none"),
        ("load", 0, "success"),
        ("load", 1, "scheduled"),
    ]
