"""`tidegate tasks why-not` of tasks whose run works: each gate of a turn closed once, what is said to help, and that it does."""

from datetime import UTC, datetime

import anyio
import pytest

from tests.integration.cli.asked import Asked, one
from tests.integration.cli.past import Past

pytestmark = pytest.mark.usefixtures("a_daemon")


CHAIN = """
from tidegate import Dag
with Dag("d") as dag:
    a, b = dag.command("a", ["true"]), dag.command("b", ["true"])
    a >> b >> dag.command("c", ["true"])
"""


async def test_a_task_waits_for_those_before_it_and_the_first_of_them_is_named(asked: Asked, past: Past) -> None:
    await past.file(CHAIN)
    await asked.run()
    (attempt,) = await past.attempts_begin()

    closed, change = await asked.closed("c"), await asked.change("c")
    await past.attempt_ends(attempt.submission_id)
    (attempt,) = await past.attempts_begin()
    await past.attempt_ends(attempt.submission_id)

    assert closed["upstream"]["facts"] == {"ended": "0 of 1", "not_ended": ["b none"]}
    assert change == {"kind": "end_upstream", "dag_id": "d", "run_id": "r", "tasks": ["a"]}
    assert await asked.state("c") == "scheduled"


async def test_a_task_that_was_given_up_runs_once_what_failed_before_it_does(asked: Asked, past: Past) -> None:
    await past.file(CHAIN)
    await asked.run()
    (attempt,) = await past.attempts_begin()
    await past.attempt_ends(attempt.submission_id, "failed", "no disk")

    closed, change = await asked.closed("c"), await asked.change("c")
    await asked.obey("c")
    for _ in range(2):
        (attempt,) = await past.attempts_begin()
        await past.attempt_ends(attempt.submission_id)

    assert closed["trigger rule"]["reason"] == {"kind": "ruled_out", "rule": "all_success", "state": "upstream_failed"}
    assert change == {"kind": "clear", "dag_id": "d", "run_id": "r", "tasks": ["a"]}
    assert await asked.state("c") == "scheduled"


async def test_a_task_that_failed_runs_when_it_is_cleared(asked: Asked, past: Past) -> None:
    await past.file(one())
    await asked.run()
    (attempt,) = await past.attempts_begin()
    await past.attempt_ends(attempt.submission_id, "failed", "no disk")

    closed = await asked.closed()
    await asked.obey()

    assert closed["next try"]["reason"] == {"kind": "task_ended", "state": "failed", "tries": 1, "reason": "no disk"}
    assert await asked.state() == "scheduled"


async def test_a_task_waits_for_its_next_try(asked: Asked, past: Past) -> None:
    await past.file(one(task="retries=1, retry_delay=timedelta(seconds=1)"))
    await asked.run()
    (attempt,) = await past.attempts_begin()
    await past.attempt_ends(attempt.submission_id, "failed", "no disk")

    closed, change = await asked.closed(), await asked.change()
    await anyio.sleep((datetime.fromisoformat(change["until"]) - datetime.now(UTC)).total_seconds() + 0.1)
    await past.retried(attempt.dag_run_id, attempt.task_index)

    assert closed["next try"]["facts"] == {"tries": 1, "of": 2, "reason": "no disk"}
    assert await asked.state() == "scheduled"


async def test_a_task_waits_for_the_run_before(asked: Asked, past: Past) -> None:
    await past.file(one(task="depends_on_past=True"))
    await asked.run("first")
    await asked.run()
    await past.reconsidered()
    (attempt,) = await past.attempts_begin()

    closed, change = await asked.closed(), await asked.change()
    await past.attempt_ends(attempt.submission_id)
    await past.reconsidered()

    assert closed["previous run"]["facts"] == {"run": "first", "tasks": ["a"]}
    assert change == {"kind": "end_upstream", "dag_id": "d", "run_id": "first", "tasks": ["a"]}
    assert await asked.state() == "scheduled"


async def test_what_failed_in_the_run_before_is_to_run_again(asked: Asked, past: Past) -> None:
    await past.file(one(task="depends_on_past=True"))
    await asked.run("first")
    await past.reconsidered()
    (attempt,) = await past.attempts_begin()
    await past.attempt_ends(attempt.submission_id, "failed")
    await asked.run()
    await past.reconsidered()

    change = await asked.change()
    await asked.obey()
    (attempt,) = await past.attempts_begin()
    await past.attempt_ends(attempt.submission_id)
    await past.reconsidered()

    assert change == {"kind": "clear", "dag_id": "d", "run_id": "first", "tasks": ["a"]}
    assert await asked.state() == "scheduled"


BRANCH = """
from tidegate import Dag
with Dag("d") as dag:
    dag.command("choose", ["true"]) >> [dag.command("a", ["true"]), dag.command("b", ["true"])]
"""


async def test_a_task_on_a_branch_that_was_not_chosen_can_be_run_all_the_same(asked: Asked, past: Past) -> None:
    await past.file(BRANCH)
    await asked.run()
    (attempt,) = await past.attempts_begin()
    await past.attempt_ends(attempt.submission_id, follow=("b",))

    closed, change = await asked.closed(), await asked.change()
    await asked.obey()

    assert closed["trigger rule"]["reason"] == {"kind": "ruled_out", "rule": "all_success", "state": "skipped"}
    assert change["tasks"] == ["a"]
    assert await asked.state() == "scheduled"
