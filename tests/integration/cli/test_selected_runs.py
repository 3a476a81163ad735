"""`runs clear` and `runs cancel` of the runs that filters select, and of a run that is running, on a real database."""

import pytest

from tests.integration.cli.conftest import Cli
from tests.integration.cli.failed_run import states
from tests.integration.cli.history import History
from tidegate.daemon.cli.commands import selected_runs
from tidegate.schemas.queries import holds

FILES = """
from tidegate import Dag, Dataset
a = Dataset("lake://a")
with Dag("one", tags=["nightly"], max_active_runs=2) as dag:
    dag.command("work", ["true"], outlets=[a]) >> dag.command("rest", ["true"])
with Dag("two", tags=["nightly"]) as dag: dag.command("work", ["true"])
with Dag("three", schedule=a) as dag: dag.command("read", ["true"])
"""


async def begun(cli: Cli, history: History) -> None:
    """Two running runs and a queued one of `one`, and a running one of `two`."""
    await history.file(FILES)
    for number in range(3):
        await cli("runs", "trigger", "one", "--run-id", f"r{number}")
    await cli("runs", "trigger", "two", "--run-id", "s")


async def listed(cli: Cli, *options: str) -> list[tuple[str, str, str]]:
    found = (await cli("runs", "list", *options, "--json")).json
    return sorted((run["dag_id"], run["run_id"], run["state"]) for run in found)


async def test_runs_are_cancelled_by_their_tag_in_batches(cli: Cli, history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selected_runs, "BATCH_RUNS", 2)
    await begun(cli, history)

    asked = await cli("runs", "cancel", "--tag", "nightly")
    answer = await cli("runs", "cancel", "--tag", "nightly", "--yes")
    again = await cli("runs", "cancel", "--tag", "nightly", "--yes")

    assert (asked.code, asked.rows) == (
        2,
        [["DAG", "STATE", "RUNS"], ["one", "queued", "1"], ["one", "running", "2"], ["two", "running", "1"]],
    )
    assert answer.out.splitlines()[-1] == "cancelled 4 runs", answer
    assert await listed(cli) == [("one", f"r{number}", "failed") for number in range(3)] + [("two", "s", "failed")]
    assert again.err == "tidegate: there is nothing to cancel: no run that the filters select has to end\n"
    ((reason,),) = await history.database.pool.fetch("SELECT DISTINCT reason FROM run_state_change WHERE state = 'failed'")
    assert reason.startswith("cancelled by ")


async def test_only_the_runs_in_a_state_are_cancelled(cli: Cli, history: History) -> None:
    await begun(cli, history)

    answer = await cli("runs", "cancel", "one", "--state", "queued", "--yes", "--json")

    assert answer.json == {"dags": [{"dag_id": "one", "cancelled": ["r2"], "ended": []}], "refused": []}
    assert await listed(cli, "one") == [("one", "r0", "running"), ("one", "r1", "running"), ("one", "r2", "failed")]


async def test_an_end_of_a_running_run_lets_the_next_one_start(cli: Cli, history: History) -> None:
    await begun(cli, history)

    await cli("runs", "cancel", "one", "--state", "running", "--yes")

    assert await listed(cli, "one") == [("one", "r0", "failed"), ("one", "r1", "failed"), ("one", "r2", "running")]


async def test_runs_of_a_held_dag_are_cancelled_too(cli: Cli, history: History) -> None:
    await begun(cli, history)
    await history.database.run(holds.hold, {"one": "a fault"})

    answer = await cli("runs", "cancel", "--tag", "nightly", "--yes")

    assert answer.out.splitlines()[-1] == "cancelled 4 runs"


async def test_runs_are_cleared_by_filters_and_counted_first(cli: Cli, history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selected_runs, "BATCH_RUNS", 1)
    await begun(cli, history)
    await cli("runs", "cancel", "--tag", "nightly", "--yes")

    asked = await cli("runs", "clear", "--tag", "nightly", "--state", "failed")
    answer = await cli("runs", "clear", "--tag", "nightly", "--state", "failed", "--yes")

    assert (asked.code, asked.rows) == (2, [["DAG", "STATE", "RUNS"], ["one", "failed", "2"], ["two", "failed", "1"]])
    assert answer.out.splitlines()[-1] == "cleared 5 tasks of 3 runs"
    assert [row[2] for row in await listed(cli)] == ["queued", "queued", "failed", "queued"]


async def test_runs_that_consumed_a_dataset_are_cleared(cli: Cli, history: History) -> None:
    await begun(cli, history)
    for _ in range(4):
        await history.worked()
    await history.relayed()
    await history.worked()

    writers = await cli("runs", "clear", "--tag", "nightly", "--state", "success", "--yes")
    readers = await cli("runs", "clear", "--dataset", "lake://a", "--yes", "--json")

    assert "consumed what these tasks wrote" in writers.out
    assert {of_dag["dag_id"] for of_dag in readers.json["dags"]} == {"three"}


async def test_one_dag_that_refuses_keeps_no_other_from_being_cleared(cli: Cli, history: History) -> None:
    await begun(cli, history)
    await history.worked()
    await history.file(FILES.replace('dag.command("rest", ["true"])', 'dag.command("other", ["true"])'))

    answer = await cli("runs", "clear", "--tag", "nightly", "--newest-version", "--yes")

    assert answer.code == 1
    assert "one: run 'r0' is running with an older version: cancel it first" in answer.err
    assert ("two", "s", "queued") in await listed(cli)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("clear",), "give either a run, or options that select runs"),
        (("cancel", "one"), "give either a run, or options that select runs"),
        (("cancel", "one", "r0", "--state", "running"), "give either a run, or options that select runs"),
        (("cancel", "--tag", "x", "--wait"), "it is for one run"),
        (("clear", "--tag", "x", "--cancel"), "it is for one run"),
        (("clear", "one", "r0", "--cancel", "--task", "work"), "leave out --task and --only-failed"),
    ],
)
async def test_a_selection_that_is_none_is_refused(cli: Cli, history: History, words: tuple[str, ...], said: str) -> None:
    await begun(cli, history)

    answer = await cli("runs", *words, "--yes")

    assert answer.code == 2
    assert said in " ".join(answer.err.split())


async def test_a_running_run_is_cancelled_and_cleared_by_the_newest_version(cli: Cli, history: History) -> None:
    await history.file(FILES)
    await cli("runs", "trigger", "one", "--run-id", "r")
    await history.file(FILES.replace('dag.command("rest", ["true"])', 'dag.command("other", ["true"])'))

    refused = await cli("runs", "clear", "one", "r", "--newest-version", "--yes")
    answer = await cli("runs", "clear", "one", "r", "--newest-version", "--cancel", "--yes")

    assert "is running with an older version" in refused.err
    assert answer.out.splitlines()[-1] == "cleared 2 tasks of 1 run"
    assert await states(cli, "one", "r") == {"work": "none", "other": "none", "rest": "removed"}
    assert await listed(cli, "one") == [("one", "r", "queued")]
