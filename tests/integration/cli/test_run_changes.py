"""`tidegate runs cancel`, `mark` and `tasks mark`, and the results of tasks."""

from typing import Any
from uuid import UUID

import anyio
import pytest

from tests.integration.cli.conftest import Cli, Printed
from tests.integration.cli.history import History

PAIR = """
from tidegate import Dag
with Dag("pair") as dag:
    dag.command("first", ["true"]) >> dag.command("second", ["true"])
"""


@pytest.fixture
async def attempt(history: History, cli: Cli) -> UUID:
    """The first task of run `a`, which works."""
    await history.file(PAIR)
    await cli("runs", "trigger", "pair", "--run-id", "a")
    (claimed,) = await history.attempts_begin()
    return claimed.submission_id


async def states(cli: Cli) -> dict[str, str]:
    return {task["task_id"]: task["state"] for task in (await cli("tasks", "list", "pair", "a", "--json")).json}


async def last_reason(cli: Cli) -> str:
    journal = (await cli("runs", "show", "pair", "a", "--json")).json["journal"]
    return str(journal[-1]["reason"])


async def test_a_cancelled_run_has_failed_and_says_who_did_it(cli: Cli, attempt: UUID) -> None:
    answer = await cli("runs", "cancel", "pair", "latest")

    assert answer == (0, "cancelled pair a\n", "")
    assert await states(cli) == {"first": "failed", "second": "skipped"}
    reason = await last_reason(cli)
    assert (reason.startswith("cancelled by "), reason.endswith("@worker-1")) == (True, True)


async def test_an_empty_run_id_is_no_run_and_changes_none(cli: Cli, attempt: UUID) -> None:
    """Such as "$RUN" of a shell where RUN is not set."""
    commands = (
        ("runs", "cancel", "pair", ""),
        ("runs", "mark", "pair", "", "success"),
        ("runs", "clear", "pair", "", "--yes"),
        ("runs", "note", "pair", "", "late"),
        ("tasks", "mark", "pair", "", "first", "success"),
        ("runs", "show", "pair", ""),
    )
    before = await states(cli)

    answers = {(answer := await cli(*command)).code: answer.err for command in commands}

    assert answers == {1: "tidegate: DAG 'pair' has no run ''; `tidegate runs list pair` shows all\n"}
    assert await states(cli) == before


async def test_the_latest_run_of_a_dag_is_found_behind_many_of_others(cli: Cli, history: History, attempt: UUID) -> None:
    await cli("runs", "trigger", "pair", "--run-id", "b")
    await history.database.pool.execute("SELECT setval('dag_run_id_seq', 5000)")
    await history.file(PAIR.replace('"pair"', '"other"'), "other.py")
    await cli("runs", "trigger", "other", "--run-id", "c")

    found = [(await cli("runs", "show", dag_id, "latest", "--json")).json["run"]["run_id"] for dag_id in ("pair", "other")]

    assert found == ["b", "c"]


async def test_a_note_is_on_a_run_or_on_a_task_until_it_is_removed(cli: Cli, attempt: UUID) -> None:
    written = await cli("runs", "note", "pair", "latest", " late:\nthe vendor delivers at noon ")
    (_, of_task) = (await cli("runs", "note", "pair", "a", "known", "--task", "first", "--json")).json
    shown = (await cli("runs", "show", "pair", "a")).out
    removed = await cli("runs", "note", "pair", "a", "--remove", "--json")

    assert written == (0, "the note is written\n", "")
    assert (of_task["task"], of_task["content"], of_task["written_by"].endswith("@worker-1")) == ("first", "known", True)
    assert "late: the vendor delivers at noon\n" in shown
    assert [note["task"] for note in removed.json] == ["first"]


@pytest.mark.parametrize(
    ("args", "code", "reason"),
    [
        ((), 2, "give either a text or --remove"),
        (("late", "--remove"), 2, "give either a text or --remove"),
        (("late", "--task", "third"), 1, "has no task 'third'"),
        (("x" * 2001,), 1, "a note has at most 2000 characters; this one has 2001"),
    ],
)
async def test_a_wrong_note_is_refused(cli: Cli, attempt: UUID, args: tuple[str, ...], code: int, reason: str) -> None:
    answer = await cli("runs", "note", "pair", "a", *args)

    assert (answer.code, reason in answer.err) == (code, True), answer.err


async def test_a_cancelled_run_is_one_json_object(cli: Cli, attempt: UUID) -> None:
    answer = await cli("runs", "cancel", "pair", "a", "--json")

    assert (answer.json["run_id"], answer.json["state"]) == ("a", "failed")


async def test_a_run_that_waits_is_cancelled_too(cli: Cli, history: History) -> None:
    await history.file(PAIR)
    await cli("dags", "pause", "pair")
    await cli("runs", "trigger", "pair", "--run-id", "a")

    answer = await cli("runs", "cancel", "pair", "a", "--json")

    assert answer.json["state"] == "failed"


async def test_a_cancelled_run_is_waited_for_until_nothing_of_it_works(
    cli: Cli, printed: Printed, history: History, attempt: UUID
) -> None:
    async def end() -> None:
        await printed.until_said("waiting")
        await history.attempt_ends(attempt, "killed")

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tg:
            tg.start_soon(end)
            answer = await cli("runs", "cancel", "pair", "a", "--wait")

    assert (answer.code, answer.out) == (0, "cancelled pair a\n")
    assert [line.split("Z  ")[1] for line in answer.err.splitlines()] == ["waiting for the kill of try 1 of first"]
    page = (await cli("runs", "show", "pair", "a", "--json")).json
    assert page["tasks"][0]["attempts"][0]["state"] == "killed"


async def test_a_run_that_has_ended_is_not_cancelled(cli: Cli, attempt: UUID) -> None:
    await cli("runs", "mark", "pair", "a", "success")

    answer = await cli("runs", "cancel", "pair", "a", "--json")

    assert answer == (1, "", "tidegate: run 'a' of DAG 'pair' has ended already: success\n")


@pytest.mark.parametrize(
    ("state", "tasks"),
    [("success", {"first": "success", "second": "success"}), ("failed", {"first": "failed", "second": "skipped"})],
)
async def test_a_run_is_marked(cli: Cli, attempt: UUID, state: str, tasks: dict[str, str]) -> None:
    answer = await cli("runs", "mark", "pair", "a", state)

    assert answer == (0, f"marked pair a as {state}\n", "")
    assert await states(cli) == tasks
    assert (await last_reason(cli)).startswith("marked by ")


async def test_a_marked_run_is_one_json_object(cli: Cli, attempt: UUID) -> None:
    answer = await cli("runs", "mark", "pair", "latest", "success", "--json")

    assert (answer.json["run_id"], answer.json["state"], answer.json["unfinished"]) == ("a", "success", 0)


async def test_a_run_is_not_marked_as_what_it_is(cli: Cli, attempt: UUID) -> None:
    await cli("runs", "mark", "pair", "a", "success")

    answer = await cli("runs", "mark", "pair", "a", "success")

    assert answer == (1, "", "tidegate: run 'a' has already ended as success\n")


async def test_a_state_that_nothing_can_end_in_is_wrong_usage(cli: Cli, attempt: UUID) -> None:
    of_run, of_task = (
        await cli("runs", "mark", "pair", "a", "running"),
        await cli("tasks", "mark", "pair", "a", "first", "skipped"),
    )

    assert (of_run.code, of_task.code) == (2, 2)
    assert "'running' is not one of 'success', 'failed'" in of_run.err


@pytest.mark.parametrize("verb", ["cancel", "mark"])
async def test_a_run_that_does_not_exist_cannot_be_changed(cli: Cli, attempt: UUID, verb: str) -> None:
    answer = await cli("runs", verb, "pair", "nope", *(["success"] if verb == "mark" else []))

    assert answer == (1, "", "tidegate: DAG 'pair' has no run 'nope'; `tidegate runs list pair` shows all\n")


async def test_a_task_that_is_marked_lets_the_next_one_run(cli: Cli, history: History, attempt: UUID) -> None:
    await history.attempt_ends(attempt, "failed", "boom")

    answer = await cli("tasks", "mark", "pair", "a", "first", "success")
    await history.clock("pair")
    await history.reconsidered()

    assert answer == (0, "marked first as success\n", "")
    assert await states(cli) == {"first": "success", "second": "scheduled"}


async def test_a_marked_task_is_one_json_object(cli: Cli, attempt: UUID) -> None:
    answer = await cli("tasks", "mark", "pair", "latest", "first", "failed", "--json")

    assert (answer.json["task_id"], answer.json["state"]) == ("first", "failed")


async def test_a_task_is_not_marked_as_what_it_is(cli: Cli, attempt: UUID) -> None:
    await cli("tasks", "mark", "pair", "a", "first", "failed")

    answer = await cli("tasks", "mark", "pair", "a", "first", "failed")

    assert answer == (1, "", "tidegate: task 'first' of run 'a' is already failed\n")


@pytest.mark.parametrize("value", [{"rows": 3, "day": "2013-01-01"}, [1, 2], "text\n", 0, False])
async def test_what_a_task_returned_is_printed_as_json(cli: Cli, history: History, attempt: UUID, value: Any) -> None:
    await history.attempt_ends(attempt, result=value)

    plain = await cli("tasks", "result", "pair", "latest", "first")
    document = await cli("tasks", "result", "pair", "latest", "first", "--json")

    assert plain == document
    assert plain.json == value


async def test_a_task_that_returned_nothing_says_so(cli: Cli, history: History, attempt: UUID) -> None:
    await history.attempt_ends(attempt)

    answer = await cli("tasks", "result", "pair", "a", "first")

    assert answer == (1, "", "tidegate: task 'first' of run 'a' has no result: it returned nothing, or its log says why\n")


async def test_a_task_that_works_has_not_returned_yet(cli: Cli, attempt: UUID) -> None:
    answer = await cli("tasks", "result", "pair", "a", "first")

    assert answer == (1, "", "tidegate: task 'first' of run 'a' has not succeeded: it is running\n")


@pytest.mark.parametrize("args", [("result", "nope"), ("mark", "nope", "success")])
async def test_a_task_that_the_run_does_not_have_is_answered_with_those_it_has(
    cli: Cli, attempt: UUID, args: tuple[str, ...]
) -> None:
    verb, *rest = args

    answer = await cli("tasks", verb, "pair", "a", *rest)

    assert answer == (1, "", "tidegate: run 'a' has no task 'nope'; its tasks are first, second\n")


async def test_a_run_that_has_not_started_has_no_tasks(cli: Cli, history: History) -> None:
    await history.file(PAIR)
    await cli("dags", "pause", "pair")
    await cli("runs", "trigger", "pair", "--run-id", "a")

    answer = await cli("tasks", "mark", "pair", "a", "first", "success")

    assert answer == (1, "", "tidegate: run 'a' has not started yet: it has no tasks\n")
