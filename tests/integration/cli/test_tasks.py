"""`tidegate tasks`: the tasks of a run, and the logs in the spool that runners write."""

import sys
from pathlib import Path
from uuid import UUID

import pytest

from tests.integration.cli.conftest import Cli
from tests.integration.cli.history import History
from tests.integration.cli.mapped_attempts import mapped_attempts
from tidegate.schemas.queries import run_pages


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
        ["load[0]", "x"],
        ["load[1]", "y"],
        ["load[2]", "z"],
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


async def test_the_attempts_of_a_removed_task_are_not_those_of_another_one_of_its_name(cli: Cli, history: History) -> None:
    dag = "from tidegate import Dag\nwith Dag('d') as dag: dag.command('{}', ['true'])"
    begun: dict[UUID, str] = {}
    for task_id in ("load", "other", "load"):
        await history.file(dag.format(task_id))
        made = ("clear", "d", "a", "--newest-version", "--yes") if begun else ("trigger", "d", "--run-id", "a")
        assert (await cli("runs", *made)).code == 0
        await history.clock("d")
        await history.reconsidered()
        (attempt,) = await history.attempts_begin()
        begun[attempt.submission_id] = task_id
        await history.attempt_ends(attempt.submission_id)
    first, other, again = map(str, begun)

    page = (await cli("runs", "show", "d", "a", "--json")).json
    named = [await history.database.run(run_pages.attempts_of, "d", "a", task_id) for task_id in ("load", "other", "gone")]

    shown = [
        (it["task"]["task_id"], it["task"]["state"], [each["submission_id"] for each in it["attempts"]]) for it in page["tasks"]
    ]
    assert shown == [("load", "success", [again]), ("other", "removed", [other]), ("load", "removed", [first])]
    assert [[str(attempt.submission_id) for attempt in of] for of in named] == [[again], [other], []]


TRIED = """
from tidegate import Dag, Dataset
with Dag("tried", schedule=Dataset("lake://a")) as dag:

    @dag.task(retries=2, outlets=[Dataset("lake://b")])
    def load(spark, run):
        print("loading")
        rows = run.events[0].extra["rows"]
        run.outlets["lake://b"].extra["rows"] = rows
        return [rows, run.try_number, run.results["first"]]

    @dag.task
    def first(spark, run):
        raise ValueError("no rows")

    first >> load >> dag.empty("done")
    first >> dag.command("each", ["true"]).expand(over=first)
"""


async def test_a_task_is_executed_with_what_its_run_has_and_nothing_is_recorded(
    cli: Cli, history: History, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setenv("TIDEGATE_DAGS_FOLDER", str(tmp_path))
    await history.file(TRIED, "tried.py")
    await history.updated("lake://a", extra={"rows": 3})
    (first,) = await history.attempts_begin()
    await history.attempt_ends(first.submission_id, result={"found": 1})
    before = (await cli("tasks", "list", "tried", "latest")).out

    answer = await cli("tasks", "test", "tried", "latest", "load")
    failed = await cli("tasks", "test", "tried", "latest", "first", "--json")

    assert (answer.code, answer.err) == (0, "loading\n")
    assert answer.out == 'load succeeded\nreturns [3,1,{"found":1}]\nsays of lake://b {"rows":3}\n'
    assert (failed.code, failed.json["reason"]) == (1, "ValueError: no rows (tried.py, line 14)")
    assert (await cli("tasks", "list", "tried", "latest")).out == before
    for label, reason in {"done": "does no work", "each": "name an instance of it, like each[0]", "x": "has no task 'x'"}.items():
        refused = await cli("tasks", "test", "tried", "latest", label)
        assert (refused.code, reason in refused.err) == (1, True), refused.err


LABELLED = """
from tidegate import Dag
with Dag("labelled") as dag:
    days = dag.command("days", ["true"])
    named = dag.command("named", ["true"]).expand(over=days, map_label="flight.day")
    plain = dag.command("plain", ["true"]).expand(over=days)
    again = dag.command("again", ["true"]).expand(over=plain)
"""


async def test_instances_are_named_by_their_elements(cli: Cli, history: History) -> None:
    await history.file(LABELLED)
    await cli("runs", "trigger", "labelled", "--run-id", "a")
    (attempt,) = await history.attempts_begin()
    await history.attempt_ends(attempt.submission_id, result=[{"flight": {"day": "2013-01-04"}}, {"text": "x " * 60}])
    for attempt in await history.attempts_begin():
        await history.attempt_ends(attempt.submission_id, result="of plain")

    answer = await cli("tasks", "list", "labelled", "a", "--json")

    long = '{"text": "x x x x x x x x x x x x x x x x x x x x x x x x x…'
    assert {(task["task_id"], task["map_index"]): task["map_label"] for task in answer.json} == {
        ("days", None): None,
        ("named", None): None,
        ("named", 0): "2013-01-04",
        ("named", 1): long,
        ("plain", None): None,
        ("plain", 0): '{"flight": {"day": "2013-01-04"}}',
        ("plain", 1): long,
        ("again", None): None,
        ("again", 0): "of plain",
        ("again", 1): "of plain",
    }
    assert "named[0] 2013-01-04" in (await cli("tasks", "list", "labelled", "a")).out
