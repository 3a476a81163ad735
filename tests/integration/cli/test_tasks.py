"""`tidegate tasks`: the tasks of a run, and the logs in the spool that runners write."""

from tests.integration.cli.conftest import Cli
from tests.integration.cli.history import History
from tests.integration.cli.mapped_attempts import mapped_attempts


async def test_tasks_are_listed_in_their_order(cli: Cli, history: History) -> None:
    await history.file()
    await history.run()
    await history.attempts_begin()

    answer = await cli("tasks", "list", "daily_delays", "latest")

    assert [row[:3] for row in answer.rows] == [
        ["TASK", "STATE", "TRY"],
        ["join", "running", "1"],
        ["report", "none", "-"],
        ["done", "none", "-"],
    ]


async def test_instances_of_a_mapped_task_are_listed_after_it(cli: Cli, history: History) -> None:
    await mapped_attempts(cli, history)

    answer = await cli("tasks", "list", "mapped", "a")

    assert [row[:2] for row in answer.rows[1:]] == [
        ["find", "success"],
        ["load", "none"],
        ["load[0]", "running"],
        ["load[1]", "running"],
        ["load[2]", "running"],
        ["after", "none"],
    ]


async def test_a_mapped_task_returned_what_its_instances_did(cli: Cli, history: History) -> None:
    attempts = await mapped_attempts(cli, history)
    for number, submission_id in enumerate(attempts.values()):
        await history.attempt_ends(submission_id, result=None if number == 1 else [number])

    whole, one = await cli("tasks", "result", "mapped", "a", "load"), await cli("tasks", "result", "mapped", "a", "load[2]")

    assert (whole.json, one.json) == ([[0], None, [2]], [2])


async def test_a_run_shows_the_attempts_of_each_instance(cli: Cli, history: History) -> None:
    attempts = await mapped_attempts(cli, history)

    page = (await cli("runs", "show", "mapped", "a", "--json")).json

    shown = {
        (each["task"]["task_id"], each["task"]["map_index"]): [attempt["submission_id"] for attempt in each["attempts"]]
        for each in page["tasks"]
    }
    assert {f"{id_}[{index}]": of for (id_, index), of in shown.items() if index is not None} == {
        name: [str(id_)] for name, id_ in attempts.items()
    }
