"""`tidegate tasks why-not`: gates of admission, each closed once and opened by the suggested change."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.integration.cli.history import History
from tests.integration.cli.why_not import WhyNot, one

pytestmark = pytest.mark.usefixtures("a_daemon")


async def beside_another_run(why: WhyNot, history: History, task: str = "") -> None:
    """A run whose task waits while that of the run before it works."""
    await history.file(one(task=task))
    await why.run("first")
    await history.attempts_begin()
    await why.run()


async def obeyed(why: WhyNot, history: History, task: str = "a") -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The closed gates of a task and the suggested change, which is made before the next admission."""
    closed, change = await why.closed(task), await why.change(task)
    await why.obey(task)
    await history.admitted()
    return closed, change


@pytest.mark.parametrize(
    ("slots", "kind"), [(None, "pool_missing"), ("1", "pool_too_small")], ids=["no such pool", "the pool is too small"]
)
async def test_a_pool_that_can_never_do_is_to_get_slots(why: WhyNot, history: History, slots: str | None, kind: str) -> None:
    await history.file(one(task='pool="p", pool_slots=2'))
    if slots is not None:
        await why.cli("pools", "set", "p", slots)
    await why.run()

    closed, change = await why.closed(), await why.change()
    await why.obey()
    await history.admitted("p")

    assert closed["pool"]["reason"]["kind"] == kind
    assert change == {"kind": "set_slots", "pool": "p", "slots": 2, "tasks": []}
    assert await why.state() == "queued"


async def test_a_pool_that_is_full_is_to_get_more_slots(why: WhyNot, history: History) -> None:
    await why.cli("pools", "set", "default_pool", "3")
    await beside_another_run(why, history, "pool_slots=2")

    closed, change = await obeyed(why, history)

    assert closed["pool"]["reason"] == {"kind": "pool_full", "pool": "default_pool", "slots": 3, "open": 1, "wanted": 2}
    assert change == {"kind": "set_slots", "pool": "default_pool", "slots": 4, "tasks": ["d first a"]}
    assert await why.state() == "queued"


async def test_what_comes_first_in_the_queue_takes_the_slots(why: WhyNot, history: History) -> None:
    await why.cli("pools", "set", "default_pool", "1")
    await history.file(one())
    await why.run("first")
    await why.run()

    closed, change = await obeyed(why, history)

    assert closed["priority"]["reason"] == {"kind": "lower_priority", "pool": "default_pool", "others": 1}
    assert closed["priority"]["facts"] == {"before_it": 1, "first": ["d first a"]}
    assert change["slots"] == 2
    assert await why.state() == "queued"


LIMITED = """
from tidegate import Dag
with Dag("d", max_active_tasks={limit}) as dag:
    dag.command("a", ["true"], {task})
    dag.command("b", ["true"], {task})
"""


async def test_a_run_has_as_many_tasks_at_work_as_it_may(why: WhyNot, history: History) -> None:
    await history.file(LIMITED.format(limit=1, task=""))
    await why.run()
    await history.attempts_begin()

    closed, change = await obeyed(why, history, "b")

    assert closed["max_active_tasks"]["facts"] == {"limit": 1, "working": 1, "tasks": ["d r a"]}
    assert change == {"kind": "end_tasks", "limit": "max_active_tasks", "count": 1, "tasks": [["d", "r", "a"]]}
    assert await why.state("b") == "queued"


async def test_slots_that_come_free_with_a_task_need_no_larger_pool(why: WhyNot, history: History) -> None:
    await why.cli("pools", "set", "default_pool", "1")
    await history.file(LIMITED.format(limit=1, task=""))
    await why.run()
    await history.attempts_begin()

    closed, change = await why.closed("b"), await why.change("b")

    assert list(closed) == ["pool", "max_active_tasks"]
    assert change["kind"] == "end_tasks"


async def test_a_task_has_as_many_instances_at_work_in_the_dag_as_it_may(why: WhyNot, history: History) -> None:
    await beside_another_run(why, history, "max_active_tis_per_dag=1")

    closed, change = await obeyed(why, history)

    assert list(closed) == ["max_active_tis_per_dag"]
    assert change == {"kind": "end_tasks", "limit": "max_active_tis_per_dag", "count": 1, "tasks": [["d", "first", "a"]]}
    assert await why.state() == "queued"


MAPPED = """
from tidegate import Dag
with Dag("d") as dag:
    load = dag.command("load", ["true"], max_active_tis_per_dagrun=1).expand(over=dag.command("find", ["true"]))
"""


async def test_a_task_has_as_many_instances_at_work_in_the_run_as_it_may(why: WhyNot, history: History) -> None:
    await history.file(MAPPED)
    await why.run()
    (attempt,) = await history.attempts_begin()
    await history.attempt_ends(attempt.submission_id, result=["x", "y"])
    (attempt,) = await history.attempts_begin()

    closed, change = await why.closed("load[1]"), await why.change("load[1]")
    by_index = await why.why("load", "r", "1")
    await history.attempt_ends(attempt.submission_id)
    await history.admitted()

    assert list(closed) == ["max_active_tis_per_dagrun"]
    assert change == {"kind": "end_tasks", "limit": "max_active_tis_per_dagrun", "count": 1, "tasks": [["d", "r", "load[0]"]]}
    assert by_index["task"] == "load[1]"
    assert await why.state("load[1]") == "queued"


async def test_a_mapped_task_waits_for_its_instances(why: WhyNot, history: History) -> None:
    await history.file(MAPPED)
    await why.run()
    (attempt,) = await history.attempts_begin()
    await history.attempt_ends(attempt.submission_id, result=["x", "y"])

    closed, change = await why.closed("load"), await why.change("load")
    for _ in range(2):
        (attempt,) = await history.attempts_begin()
        await history.attempt_ends(attempt.submission_id)

    assert closed["upstream"]["reason"] == {"kind": "elements", "left": 2, "total": 2}
    assert change["tasks"] == ["load[0]", "load[1]"]
    assert await why.state("load") == "success"


async def test_the_whole_installation_may_be_full(why: WhyNot, history: History) -> None:
    await history.no_daemon()
    await history.daemon(parallelism=1)
    await beside_another_run(why, history)

    closed, change = await why.closed(), await why.change()
    await history.admitted(parallelism=1)
    before = await why.state()
    await history.admitted(parallelism=change["limit"])

    assert closed["parallelism"]["facts"] == {"limit": 1, "working": 1}
    assert (change["kind"], before, await why.state()) == ("set_parallelism", "scheduled", "queued")


async def test_an_intent_waits_for_being_submitted(why: WhyNot, history: History) -> None:
    await history.file(one())
    await why.run()
    await history.admitted()

    closed, change = await why.closed(), await why.change()
    await history.attempts_begin()

    assert closed["submission"]["reason"] == {"kind": "not_submitted", "backend": "command", "state": "intent"}
    assert change == {"kind": "wait", "until": None}
    assert await why.state() == "running"


async def test_what_no_daemon_can_reach_is_named(why: WhyNot, history: History) -> None:
    await history.no_daemon()
    await history.daemon(away={"the runners": "no space", "Kafka": "refused"})
    await history.file(one())
    await why.run()
    await history.admitted()

    closed, change = await why.closed(), await why.change()
    await history.daemon()

    reason = closed["backend"]["reason"]
    assert (reason["kind"], reason["server"], reason["error"]) == ("server_unreachable", "the runners", "no space")
    assert change == {"kind": "bring_back", "server": "the runners"}
    assert list(await why.closed()) == ["submission"]


async def test_without_a_daemon_nothing_happens(why: WhyNot, history: History) -> None:
    await history.no_daemon()
    await history.file(one())
    await why.run()

    closed, change = await why.closed(), await why.change()
    await history.daemon()

    assert closed["daemons"]["reason"] == {"kind": "no_daemon"}
    assert change == {"kind": "start_daemon"}
    assert await why.closed() == {}
