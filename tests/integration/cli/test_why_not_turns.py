"""`tidegate tasks why-not`: gates of readiness, each closed once and opened by the suggested change."""

from datetime import datetime

import pytest

from tests.integration.cli.history import History
from tests.integration.cli.why_not import WhyNot, one
from tidegate.handlers.explain import task_facts

pytestmark = pytest.mark.usefixtures("a_daemon")


CHAIN = """
from tidegate import Dag
with Dag("d") as dag:
    a, b = dag.command("a", ["true"]), dag.command("b", ["true"])
    a >> b >> dag.command("c", ["true"])
"""


async def test_a_task_waits_for_those_before_it_and_the_first_of_them_is_named(why: WhyNot, history: History) -> None:
    await history.file(CHAIN)
    await why.run()
    (attempt,) = await history.attempts_begin()

    closed, change = await why.closed("c"), await why.change("c")
    await history.attempt_ends(attempt.submission_id)
    (attempt,) = await history.attempts_begin()
    await history.attempt_ends(attempt.submission_id)

    assert closed["upstream"]["facts"] == {"ended": "0 of 1", "not_ended": ["b none"]}
    assert change == {"kind": "end_upstream", "dag_id": "d", "run_id": "r", "tasks": ["a"]}
    assert await why.state("c") == "scheduled"


async def test_a_task_that_was_given_up_runs_once_what_failed_before_it_does(why: WhyNot, history: History) -> None:
    await history.file(CHAIN)
    await why.run()
    (attempt,) = await history.attempts_begin()
    await history.attempt_ends(attempt.submission_id, "failed", "no disk")

    closed, change = await why.closed("c"), await why.change("c")
    await why.obey("c")
    for _ in range(2):
        (attempt,) = await history.attempts_begin()
        await history.attempt_ends(attempt.submission_id)

    assert closed["trigger rule"]["reason"] == {"kind": "ruled_out", "rule": "all_success", "state": "upstream_failed"}
    assert change == {"kind": "clear", "dag_id": "d", "run_id": "r", "tasks": ["a"]}
    assert await why.state("c") == "scheduled"


async def test_a_task_that_failed_runs_when_it_is_cleared(why: WhyNot, history: History) -> None:
    await history.file(one())
    await why.run()
    (attempt,) = await history.attempts_begin()
    await history.attempt_ends(attempt.submission_id, "failed", "no disk")

    closed = await why.closed()
    await why.obey()

    assert closed["next try"]["reason"] == {"kind": "task_ended", "state": "failed", "tries": 1, "reason": "no disk"}
    assert await why.state() == "scheduled"


async def test_a_task_waits_for_its_next_try(why: WhyNot, history: History) -> None:
    await history.file(one(task="retries=1, retry_delay=timedelta(hours=1)"))
    await why.run()
    (attempt,) = await history.attempts_begin()
    await history.attempt_ends(attempt.submission_id, "failed", "no disk")

    closed, change = await why.closed(), await why.change()
    why.wait.until(datetime.fromisoformat(change["until"]))
    await history.retried(attempt.dag_run_id, attempt.task_index)

    assert closed["next try"]["facts"] == {"tries": 1, "of": 2, "reason": "no disk"}
    assert await why.state() == "scheduled"


async def test_a_task_waits_for_the_run_before(why: WhyNot, history: History) -> None:
    await history.file(one(task="depends_on_past=True"))
    await why.run("first")
    await why.run()
    await history.reconsidered()
    (attempt,) = await history.attempts_begin()

    closed, change = await why.closed(), await why.change()
    await history.attempt_ends(attempt.submission_id)
    await history.reconsidered()

    assert closed["previous run"]["facts"] == {"run": "first", "tasks": ["a"]}
    assert change == {"kind": "end_upstream", "dag_id": "d", "run_id": "first", "tasks": ["a"]}
    assert await why.state() == "scheduled"


async def test_what_failed_in_the_run_before_is_to_run_again(why: WhyNot, history: History) -> None:
    await history.file(one(task="depends_on_past=True"))
    await why.run("first")
    await history.reconsidered()
    (attempt,) = await history.attempts_begin()
    await history.attempt_ends(attempt.submission_id, "failed")
    await why.run()
    await history.reconsidered()

    change = await why.change()
    await why.obey()
    (attempt,) = await history.attempts_begin()
    await history.attempt_ends(attempt.submission_id)
    await history.reconsidered()

    assert change == {"kind": "clear", "dag_id": "d", "run_id": "first", "tasks": ["a"]}
    assert await why.state() == "scheduled"


BRANCH = """
from tidegate import Dag
with Dag("d") as dag:
    dag.command("choose", ["true"]) >> [dag.command("a", ["true"]), dag.command("b", ["true"])]
"""


async def test_a_task_on_a_branch_that_was_not_chosen_can_be_run_all_the_same(why: WhyNot, history: History) -> None:
    await history.file(BRANCH)
    await why.run()
    (attempt,) = await history.attempts_begin()
    await history.attempt_ends(attempt.submission_id, follow=("b",))

    closed, change = await why.closed(), await why.change()
    await why.obey()

    assert closed["trigger rule"]["reason"] == {"kind": "ended_apart", "state": "skipped", "reason": "choose did not choose it"}
    assert change["tasks"] == ["a"]
    assert await why.state() == "scheduled"


async def test_a_task_that_ended_with_its_run_says_why_it_did(why: WhyNot, history: History) -> None:
    await history.file(CHAIN)
    await why.run()
    await history.attempts_begin()
    assert (await why.cli("runs", "cancel", "d", "r")).code == 0

    closed, change = await why.closed("c"), await why.change("c")

    listed = {task["task_id"]: task["reason"] for task in (await why.cli("tasks", "list", "d", "r", "--json")).json}
    assert closed["trigger rule"]["reason"] == {"kind": "ended_apart", "state": "skipped", "reason": listed["c"]}
    assert change == {"kind": "clear", "dag_id": "d", "run_id": "r", "tasks": ["a"]}


MAPPED = """
from tidegate import Dag
with Dag("d") as dag:
    dag.command("a", ["true"]).expand(over=dag.command("list", ["true"]))
"""


async def test_a_mapped_task_without_a_list_says_so(why: WhyNot, history: History) -> None:
    await history.file(MAPPED)
    await why.run()
    (attempt,) = await history.attempts_begin()
    await history.attempt_ends(attempt.submission_id, result={"no": "list"})

    closed, change = await why.closed(), await why.change()

    reason = "list returned no list to map over"
    assert closed["next try"]["reason"] == {"kind": "task_ended", "state": "failed", "tries": 0, "reason": reason}
    assert change == {"kind": "clear", "dag_id": "d", "run_id": "r", "tasks": ["list"]}


async def test_of_many_instances_the_first_that_have_not_ended_are_named(
    why: WhyNot, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_facts, "MAX_NAMED", 2)
    await history.file(MAPPED)
    await why.run()
    (attempt,) = await history.attempts_begin()
    await history.attempt_ends(attempt.submission_id, result=[1, 2, 3, 4])
    (first, *_) = await history.attempts_begin()
    await history.attempt_ends(first.submission_id)

    closed, change = await why.closed(), await why.change()

    assert closed["upstream"]["reason"] == {"kind": "elements", "left": 3, "total": 4}
    assert change["tasks"] == ["a[1]", "a[2]"]
    assert await why.state("a[0]") == "success"
