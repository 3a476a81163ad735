"""`tidegate tasks why-not`: gates of a run, each closed once and opened by the suggested change; the page."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.integration.cli.conftest import Cli
from tests.integration.cli.history import History
from tests.integration.cli.why_not import WhyNot, one

MANY = """
from tidegate import Dag
with Dag("d") as dag:
    for number in range(30):
        dag.command(f"task_{number:02}", ["true"])
"""

pytestmark = pytest.mark.usefixtures("a_daemon")


async def test_what_runs_has_all_gates_open(why: WhyNot, history: History) -> None:
    await history.file(one())
    await why.run()
    await history.attempts_begin()

    page = await why.why()

    assert {gate["state"] for gate in page["gates"]} == {"open"}
    assert (page["state"], page["change"]) == ("running", [])


async def test_pause_keeps_a_run_from_starting(why: WhyNot, history: History) -> None:
    await history.file(one())
    await why.cli("dags", "pause", "d")
    await why.run()

    page = await why.why()
    await why.obey()

    assert {gate["name"]: gate["state"] for gate in page["gates"]} == {
        "condition": "open",
        "timing": "open",
        "pause": "closed",
        "DAG file": "open",
        "run limit": "open",
        "queued runs": "open",
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
    assert await why.state() == "scheduled"


async def test_pause_keeps_a_task_from_being_admitted(why: WhyNot, history: History) -> None:
    await history.file(one())
    await why.run()
    await why.cli("dags", "pause", "d")
    await history.admitted()

    closed = await why.closed()
    await why.obey()
    await history.admitted()

    assert closed["pause"]["reason"] == {"kind": "dag_paused"}
    assert closed["pause"]["since"] is not None
    assert await why.state() == "queued"


async def test_a_run_of_later_waits_for_its_time(why: WhyNot, history: History) -> None:
    await history.file(one())
    later = datetime.now(UTC) + timedelta(hours=1)
    await why.run("r", "--run-after", later.isoformat())

    closed, change = await why.closed(), await why.change()
    why.wait.until(later)
    await history.clock("d")

    assert list(closed) == ["timing"]
    assert change == {"kind": "wait", "until": later.isoformat().replace("+00:00", "Z")}
    assert await why.state() == "scheduled"


async def test_a_run_waits_for_room_beside_others(why: WhyNot, history: History) -> None:
    await history.file(one("max_active_runs=1"))
    await why.run("first")
    await why.run()

    closed, change = await why.closed(), await why.change()
    await history.file(one(f"max_active_runs={change['limit']}"))

    assert closed["run limit"]["facts"] == {"running": 1, "max_active_runs": 1, "runs": ["first"]}
    assert change == {"kind": "raise_max_active_runs", "dag_id": "d", "path": "daily.py", "limit": 2, "runs": ["first"]}
    assert await why.state() == "scheduled"


async def test_queued_runs_that_come_first_need_room_too(why: WhyNot, history: History) -> None:
    await history.file(one("max_active_runs=1"))
    for run_id in ("first", "second", "r"):
        await why.run(run_id)

    closed, change = await why.closed(), await why.change()
    await history.file(one("max_active_runs=2"))
    too_few = await why.state()
    await history.file(one(f"max_active_runs={change['limit']}"))

    assert closed["queued runs"]["reason"] == {"kind": "runs_ahead", "count": 1}
    assert (change["limit"], too_few, await why.state()) == (3, None, "scheduled")


async def test_a_dag_that_is_in_no_file_starts_nothing(why: WhyNot, history: History) -> None:
    await history.file(one())
    await history.file_absent()
    await why.run()

    closed, change = await why.closed(), await why.change()
    await history.file(one(), path=change["path"])

    assert (closed["DAG file"]["reason"], closed["DAG file"]["facts"]["missing"]) == ({"kind": "dag_stale"}, True)
    assert await why.state() == "scheduled"


async def test_a_broken_file_is_told_and_holds_up_nothing(why: WhyNot, history: History) -> None:
    await history.file(one())
    await history.broken_file("daily.py", "no such name", 3)
    await why.run()

    gates = {gate["name"]: gate for gate in (await why.why())["gates"]}

    assert (gates["DAG file"]["state"], gates["DAG file"]["facts"]["error"]) == ("open", "no such name")
    assert await why.state() == "scheduled"


async def test_gates_are_a_table_for_people(cli: Cli, why: WhyNot, history: History) -> None:
    await history.file(one(task='pool="p"'))
    await why.run()

    answer = await cli("tasks", "why-not", "d", "latest", "a")

    assert "  waits for  pool 'p', which does not exist (pool)\n" in answer.out
    assert "\npool closed 0s pool p; needed 1; taken 0\n" in answer.timeless
    assert answer.out.endswith("\nthe smallest change that lets it run\n  give pool 'p' 1 slot\n    tidegate pools set p 1\n")


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        (("nope", "r", "a"), "there is no DAG 'nope'; `tidegate dags list` shows all"),
        (("d", "nope", "a"), "DAG 'd' has no run 'nope'; `tidegate runs list d` shows all"),
        (("d", "r", "nope"), "run 'r' has no task 'nope'; its tasks are a"),
        (("d", "r", "a", "7"), "run 'r' has no task 'a[7]'; its tasks are a"),
    ],
)
async def test_unknown_names_are_refused(why: WhyNot, history: History, args: tuple[str, ...], complaint: str) -> None:
    await history.file(one())
    await why.run()

    assert await why.cli("tasks", "why-not", *args) == (1, "", f"tidegate: {complaint}\n")


async def test_a_refusal_names_the_first_of_many_tasks(why: WhyNot, history: History) -> None:
    await history.file(MANY)
    await why.run()

    answers = [await why.cli("tasks", *command, "d", "r", "nope") for command in (("why-not",), ("clear", "--yes"))]

    first = ", ".join(f"task_{number:02}" for number in range(20))
    assert [answer.err.partition("; ")[2] for answer in answers] == [f"its tasks are {first}, and others\n"] * 2


async def test_an_index_is_a_number(why: WhyNot) -> None:
    answer = await why.cli("tasks", "why-not", "d", "r", "a", "x")

    assert (answer.code, "[INDEX]" in answer.err) == (2, True)
