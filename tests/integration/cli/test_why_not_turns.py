"""`tidegate tasks why-not`: gates of readiness, each closed once and opened by the suggested change."""

from datetime import UTC, datetime

import anyio
import pytest

from tests.integration.cli.history import History
from tests.integration.cli.why_not import WhyNot, one

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
    await history.file(one(task="retries=1, retry_delay=timedelta(seconds=1)"))
    await why.run()
    (attempt,) = await history.attempts_begin()
    await history.attempt_ends(attempt.submission_id, "failed", "no disk")

    closed, change = await why.closed(), await why.change()
    await anyio.sleep(max(0, (datetime.fromisoformat(change["until"]) - datetime.now(UTC)).total_seconds()) + 0.1)
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

    assert closed["trigger rule"]["reason"] == {"kind": "ruled_out", "rule": "all_success", "state": "skipped"}
    assert change["tasks"] == ["a"]
    assert await why.state() == "scheduled"
