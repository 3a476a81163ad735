"""`tidegate tasks why-not`: each gate closed once, what is said to help, and that it does."""

import re
import shlex
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import pytest

from tests.integration.cli.conftest import Cli
from tests.integration.cli.past import Past

ONE = (
    'from datetime import timedelta\nfrom tidegate import Dag\nwith Dag("d", {dag}) as dag: dag.command("a", ["true"], {task})\n'
)


def one(dag: str = "", task: str = "") -> str:
    """A DAG `d` with one task `a`."""
    return ONE.format(dag=dag, task=task)


@pytest.fixture(autouse=True)
async def _a_daemon_is_alive(past: Past) -> None:
    await past.daemon()


class Asked:
    """What `tasks why-not` says of a task of DAG `d`, and doing what it says."""

    def __init__(self, cli: Cli, past: Past) -> None:
        self.cli = cli
        self.past = past

    async def run(self, run_id: str = "r", *options: str) -> None:
        answer = await self.cli("runs", "trigger", "d", "--run-id", run_id, *options)
        assert answer.code == 0, answer.err

    async def why(self, task: str = "a", run_id: str = "r", *rest: str) -> Mapping[str, Any]:
        answer = await self.cli("tasks", "why-not", "d", run_id, task, *rest, "--json")
        assert answer.code == 0, answer.err
        return dict(answer.json)

    async def closed(self, task: str = "a", run_id: str = "r") -> Mapping[str, Any]:
        """The closed gates by name."""
        return {gate["name"]: gate for gate in (await self.why(task, run_id))["gates"] if gate["state"] == "closed"}

    async def obey(self, task: str = "a", run_id: str = "r", *, first: bool = False) -> None:
        """Call the commands that are said to help, or only the first one."""
        commands = [command for change in (await self.why(task, run_id))["change"] for command in change["commands"]]
        assert commands
        for command in commands[:1] if first else commands:
            program, *args = shlex.split(command)
            answer = await self.cli(*args)
            assert (program, answer.code) == ("tidegate", 0), answer.err
        await self.past.clock("d")
        await self.past.reconsidered()

    async def state(self, task: str = "a", run_id: str = "r") -> str | None:
        state: str | None = (await self.why(task, run_id))["state"]
        return state

    async def change(self, task: str = "a", run_id: str = "r") -> dict[str, Any]:
        """The one change that is said to help, without its words."""
        (change,) = (await self.why(task, run_id))["change"]
        return {name: value for name, value in change.items() if name not in ("says", "commands")}


@pytest.fixture
def asked(cli: Cli, past: Past) -> Asked:
    return Asked(cli, past)


async def test_what_runs_has_all_gates_open(asked: Asked, past: Past) -> None:
    await past.file(one())
    await asked.run()
    await past.attempts_begin()

    page = await asked.why()

    assert {gate["state"] for gate in page["gates"]} == {"open"}
    assert (page["state"], page["change"]) == ("running", [])


async def test_pause_keeps_a_run_from_starting(asked: Asked, past: Past) -> None:
    await past.file(one())
    await asked.cli("dags", "pause", "d")
    await asked.run()

    page = await asked.why()
    await asked.obey()

    assert {gate["name"]: gate["state"] for gate in page["gates"]} == {
        "condition": "open",
        "timing": "open",
        "pause": "closed",
        "DAG file": "open",
        "run limit": "open",
        "runs before it": "open",
        **dict.fromkeys(
            (
                "run state",
                "upstream",
                "trigger rule",
                "next try",
                "pool",
                "priority",
                "max_active_tasks",
                "submission",
                "backend",
            ),
            "not reached",
        ),
        "daemons": "open",
    }
    assert await asked.state() == "scheduled"


async def test_pause_keeps_a_task_from_being_admitted(asked: Asked, past: Past) -> None:
    await past.file(one())
    await asked.run()
    await asked.cli("dags", "pause", "d")
    await past.admitted()

    closed = await asked.closed()
    await asked.obey()
    await past.admitted()

    assert closed["pause"]["block"] == {"kind": "dag_paused"}
    assert closed["pause"]["since"] is not None
    assert await asked.state() == "queued"


async def test_a_run_of_later_waits_for_its_time(asked: Asked, past: Past) -> None:
    await past.file(one())
    later = datetime.now(UTC) + timedelta(seconds=2)
    await asked.run("r", "--run-after", later.isoformat())

    closed, change = await asked.closed(), await asked.change()
    await anyio.sleep_until(anyio.current_time() + (later - datetime.now(UTC)).total_seconds() + 0.1)
    await past.clock("d")

    assert list(closed) == ["timing"]
    assert change == {"kind": "wait", "until": later.isoformat().replace("+00:00", "Z")}
    assert await asked.state() == "scheduled"


async def test_a_run_waits_for_room_beside_others(asked: Asked, past: Past) -> None:
    await past.file(one("max_active_runs=1"))
    await asked.run("first")
    await asked.run()

    closed, change = await asked.closed(), await asked.change()
    await past.file(one(f"max_active_runs={change['limit']}"))

    assert closed["run limit"]["facts"] == {"running": 1, "max_active_runs": 1, "runs": ["first"]}
    assert change == {"kind": "raise_max_active_runs", "dag_id": "d", "path": "daily.py", "limit": 2, "runs": ["first"]}
    assert await asked.state() == "scheduled"


async def test_queued_runs_that_come_first_need_room_too(asked: Asked, past: Past) -> None:
    await past.file(one("max_active_runs=1"))
    for run_id in ("first", "second", "r"):
        await asked.run(run_id)

    closed, change = await asked.closed(), await asked.change()
    await past.file(one("max_active_runs=2"))
    too_few = await asked.state()
    await past.file(one(f"max_active_runs={change['limit']}"))

    assert closed["runs before it"]["block"] == {"kind": "runs_ahead", "count": 1}
    assert (change["limit"], too_few, await asked.state()) == (3, None, "scheduled")


async def test_a_dag_that_is_in_no_file_starts_nothing(asked: Asked, past: Past) -> None:
    await past.file(one())
    await past.file_absent()
    await asked.run()

    closed, change = await asked.closed(), await asked.change()
    await past.file(one(), path=change["path"])

    assert (closed["DAG file"]["block"], closed["DAG file"]["facts"]["missing"]) == ({"kind": "dag_stale"}, True)
    assert await asked.state() == "scheduled"


async def test_a_broken_file_is_told_and_holds_up_nothing(asked: Asked, past: Past) -> None:
    await past.file(one())
    await past.broken_file("daily.py", "no such name", 3)
    await asked.run()

    gates = {gate["name"]: gate for gate in (await asked.why())["gates"]}

    assert (gates["DAG file"]["state"], gates["DAG file"]["facts"]["error"]) == ("open", "no such name")
    assert await asked.state() == "scheduled"


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

    assert closed["trigger rule"]["block"] == {"kind": "ruled_out", "rule": "all_success", "state": "upstream_failed"}
    assert change == {"kind": "clear", "dag_id": "d", "run_id": "r", "tasks": ["a"]}
    assert await asked.state("c") == "scheduled"


async def test_a_task_that_failed_runs_when_it_is_cleared(asked: Asked, past: Past) -> None:
    await past.file(one())
    await asked.run()
    (attempt,) = await past.attempts_begin()
    await past.attempt_ends(attempt.submission_id, "failed", "no disk")

    closed = await asked.closed()
    await asked.obey()

    assert closed["next try"]["block"] == {"kind": "task_ended", "state": "failed", "tries": 1, "reason": "no disk"}
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

    assert closed["run before"]["facts"] == {"run": "first", "tasks": ["a"]}
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


@pytest.mark.parametrize(
    ("slots", "kind"), [(None, "pool_missing"), ("1", "pool_too_small")], ids=["no such pool", "the pool is too small"]
)
async def test_a_pool_that_can_never_do_is_to_get_slots(asked: Asked, past: Past, slots: str | None, kind: str) -> None:
    await past.file(one(task='pool="p", pool_slots=2'))
    if slots is not None:
        await asked.cli("pools", "set", "p", slots)
    await asked.run()

    closed, change = await asked.closed(), await asked.change()
    await asked.obey()
    await past.admitted("p")

    assert closed["pool"]["block"]["kind"] == kind
    assert change == {"kind": "set_slots", "pool": "p", "slots": 2, "tasks": []}
    assert await asked.state() == "queued"


async def test_a_pool_that_is_full_is_to_get_more_slots(asked: Asked, past: Past) -> None:
    await asked.cli("pools", "set", "default_pool", "3")
    await past.file(one(task="pool_slots=2"))
    await asked.run("first")
    await past.attempts_begin()
    await asked.run()

    closed, change = await asked.closed(), await asked.change()
    await asked.obey()
    await past.admitted()

    assert closed["pool"]["block"] == {"kind": "pool_full", "pool": "default_pool", "slots": 3, "open": 1, "wanted": 2}
    assert change == {"kind": "set_slots", "pool": "default_pool", "slots": 4, "tasks": ["d first a"]}
    assert await asked.state() == "queued"


async def test_what_comes_first_in_the_queue_takes_the_slots(asked: Asked, past: Past) -> None:
    await asked.cli("pools", "set", "default_pool", "1")
    await past.file(one())
    await asked.run("first")
    await asked.run()

    closed, change = await asked.closed(), await asked.change()
    await asked.obey()
    await past.admitted()

    assert closed["priority"]["block"] == {"kind": "outranked", "pool": "default_pool", "others": 1}
    assert closed["priority"]["facts"] == {"before_it": 1, "first": ["d first a"]}
    assert change["slots"] == 2
    assert await asked.state() == "queued"


LIMITED = """
from tidegate import Dag
with Dag("d", max_active_tasks={limit}) as dag:
    dag.command("a", ["true"], {task})
    dag.command("b", ["true"], {task})
"""


async def test_a_run_has_as_many_tasks_at_work_as_it_may(asked: Asked, past: Past) -> None:
    await past.file(LIMITED.format(limit=1, task=""))
    await asked.run()
    await past.attempts_begin()

    closed, change = await asked.closed("b"), await asked.change("b")
    await asked.obey("b")
    await past.admitted()

    assert closed["max_active_tasks"]["facts"] == {"limit": 1, "working": 1, "tasks": ["d r a"]}
    assert change == {"kind": "end_tasks", "limit": "max_active_tasks", "count": 1, "tasks": [["d", "r", "a"]]}
    assert await asked.state("b") == "queued"


async def test_slots_that_come_free_with_a_task_need_no_larger_pool(asked: Asked, past: Past) -> None:
    await asked.cli("pools", "set", "default_pool", "1")
    await past.file(LIMITED.format(limit=1, task=""))
    await asked.run()
    await past.attempts_begin()

    closed, change = await asked.closed("b"), await asked.change("b")

    assert list(closed) == ["pool", "max_active_tasks"]
    assert change["kind"] == "end_tasks"


async def test_a_task_has_as_many_instances_at_work_in_the_dag_as_it_may(asked: Asked, past: Past) -> None:
    await past.file(one(task="max_active_tis_per_dag=1"))
    await asked.run("first")
    await past.attempts_begin()
    await asked.run()

    closed, change = await asked.closed(), await asked.change()
    await asked.obey()
    await past.admitted()

    assert list(closed) == ["max_active_tis_per_dag"]
    assert change == {"kind": "end_tasks", "limit": "max_active_tis_per_dag", "count": 1, "tasks": [["d", "first", "a"]]}
    assert await asked.state() == "queued"


MAPPED = """
from tidegate import Dag
with Dag("d") as dag:
    load = dag.command("load", ["true"], max_active_tis_per_dagrun=1).expand(over=dag.command("find", ["true"]))
"""


async def test_a_task_has_as_many_instances_at_work_in_the_run_as_it_may(asked: Asked, past: Past) -> None:
    await past.file(MAPPED)
    await asked.run()
    (attempt,) = await past.attempts_begin()
    await past.attempt_ends(attempt.submission_id, result=["x", "y"])
    (attempt,) = await past.attempts_begin()

    closed, change = await asked.closed("load[1]"), await asked.change("load[1]")
    by_index = await asked.why("load", "r", "1")
    await past.attempt_ends(attempt.submission_id)
    await past.admitted()

    assert list(closed) == ["max_active_tis_per_dagrun"]
    assert change == {"kind": "end_tasks", "limit": "max_active_tis_per_dagrun", "count": 1, "tasks": [["d", "r", "load[0]"]]}
    assert by_index["task"] == "load[1]"
    assert await asked.state("load[1]") == "queued"


async def test_a_mapped_task_waits_for_its_instances(asked: Asked, past: Past) -> None:
    await past.file(MAPPED)
    await asked.run()
    (attempt,) = await past.attempts_begin()
    await past.attempt_ends(attempt.submission_id, result=["x", "y"])

    closed, change = await asked.closed("load"), await asked.change("load")
    for _ in range(2):
        (attempt,) = await past.attempts_begin()
        await past.attempt_ends(attempt.submission_id)

    assert closed["upstream"]["block"] == {"kind": "elements", "left": 2, "total": 2}
    assert change["tasks"] == ["load[0]", "load[1]"]
    assert await asked.state("load") == "success"


async def test_the_whole_installation_may_be_full(asked: Asked, past: Past) -> None:
    await past.no_daemon()
    await past.daemon(parallelism=1)
    await past.file(one())
    await asked.run("first")
    await past.attempts_begin()
    await asked.run()

    closed, change = await asked.closed(), await asked.change()
    await past.admitted(parallelism=1)
    before = await asked.state()
    await past.admitted(parallelism=change["limit"])

    assert closed["parallelism"]["facts"] == {"limit": 1, "working": 1}
    assert (change["kind"], before, await asked.state()) == ("set_parallelism", "scheduled", "queued")


async def test_an_intent_waits_for_being_submitted(asked: Asked, past: Past) -> None:
    await past.file(one())
    await asked.run()
    await past.admitted()

    closed, change = await asked.closed(), await asked.change()
    await past.attempts_begin()

    assert closed["submission"]["block"] == {"kind": "not_submitted", "backend": "command", "state": "intent"}
    assert change == {"kind": "wait", "until": None}
    assert await asked.state() == "running"


async def test_what_no_daemon_can_reach_is_named(asked: Asked, past: Past) -> None:
    await past.no_daemon()
    await past.daemon(away={"the runners": "no space", "Kafka": "refused"})
    await past.file(one())
    await asked.run()
    await past.admitted()

    closed, change = await asked.closed(), await asked.change()
    await past.daemon()

    assert closed["backend"]["block"] == {"kind": "server_away", "server": "the runners", "error": "no space"}
    assert change == {"kind": "bring_back", "server": "the runners"}
    assert list(await asked.closed()) == ["submission"]


async def test_without_a_daemon_nothing_happens(asked: Asked, past: Past) -> None:
    await past.no_daemon()
    await past.file(one())
    await asked.run()

    closed, change = await asked.closed(), await asked.change()
    await past.daemon()

    assert closed["daemons"]["block"] == {"kind": "no_daemon"}
    assert change == {"kind": "start_daemon"}
    assert await asked.closed() == {}


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

    assert closed["trigger rule"]["block"] == {"kind": "ruled_out", "rule": "all_success", "state": "skipped"}
    assert change["tasks"] == ["a"]
    assert await asked.state() == "scheduled"


async def test_gates_are_a_table_for_people(cli: Cli, asked: Asked, past: Past) -> None:
    await past.file(one(task='pool="p"'))
    await asked.run()

    out = re.sub(r"(?<= )\ds(?= )", "0s", (await cli("tasks", "why-not", "d", "latest", "a")).out)

    assert "  waits for  pool 'p', which does not exist (pool)\n" in out
    assert "\npool              closed       0s   pool p; needed 1; taken 0\n" in out
    assert out.endswith("\nthe smallest change that lets it run\n  give pool 'p' 1 slot\n    tidegate pools set p 1\n")


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        (("nope", "r", "a"), "there is no DAG 'nope'; `tidegate dags list` shows those there are"),
        (("d", "nope", "a"), "DAG 'd' has no run 'nope'; `tidegate runs list d` shows those there are"),
        (("d", "r", "nope"), "run 'r' has no task 'nope'; its tasks are a"),
        (("d", "r", "a", "7"), "run 'r' has no task 'a[7]'; its tasks are a"),
    ],
)
async def test_names_that_nobody_knows_are_refused(asked: Asked, past: Past, args: tuple[str, ...], complaint: str) -> None:
    await past.file(one())
    await asked.run()

    assert await asked.cli("tasks", "why-not", *args) == (1, "", f"tidegate: {complaint}\n")


async def test_an_index_is_a_number(asked: Asked) -> None:
    answer = await asked.cli("tasks", "why-not", "d", "r", "a", "x")

    assert (answer.code, "[INDEX]" in answer.err) == (2, True)
