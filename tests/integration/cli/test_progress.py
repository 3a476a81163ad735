"""`tidegate runs show --progress` on a real database."""

import pytest

from tests.integration.cli.conftest import Cli
from tests.integration.cli.history import HOST, History

FLOW = """
from tidegate import Dag
with Dag("flow", max_active_runs=2, max_active_tasks=2) as dag:
    first = [dag.command(f"first_{n}", ["true"], max_active_tis_per_dag=1) for n in range(3)]
    first >> dag.command("join", ["true"], trigger_rule="all_done", pool="missing")
    dag.command("wide", ["true"], pool="narrow", pool_slots=3)
    dag.command("lazy", ["true"], retries=1)
"""

CHAIN = """
from datetime import datetime, UTC
from tidegate import Dag
with Dag("chain", schedule="@daily", start_date=datetime(2013, 1, 1, tzinfo=UTC), end_date=datetime(2013, 1, 2, tzinfo=UTC),
         catchup=True) as dag:
    dag.command("only", ["true"], depends_on_past=True)
"""


MAPPED = """
from tidegate import Dag
with Dag("mapped", max_active_tasks=2) as dag:
    dag.command("load", ["true"]).expand(over=dag.command("find", ["true"]))
"""


@pytest.fixture(autouse=True)
async def _a_daemon_is_alive(history: History) -> None:
    await history.daemon()


async def blocks(cli: Cli, dag_id: str, run_id: str) -> dict[str, list[dict[str, object]]]:
    page = (await cli("runs", "show", dag_id, run_id, "--progress", "--json")).json
    return {waiting["task_id"]: waiting["blocked_by"] for waiting in page["waiting"]}


async def test_progress_says_what_works_and_what_everything_else_waits_for(cli: Cli, history: History) -> None:
    await cli("pools", "set", "narrow", "2")
    await history.file(FLOW)
    await cli("runs", "trigger", "flow", "--run-id", "a")
    await history.attempts_begin()

    page = (await cli("runs", "show", "flow", "a", "--progress", "--json")).json

    assert page["counts"] == {"none": 1, "scheduled": 3, "running": 2}
    assert (page["tasks"], page["ended"], page["state"], page["blocked_by"]) == (6, 0, "running", [])
    assert [(w["task_id"], w["state"], w["try_number"], w["backend"], w["host"]) for w in page["working"]] == [
        ("first_0", "running", 1, "command", HOST),
        ("first_1", "running", 1, "command", HOST),
    ]
    assert await blocks(cli, "flow", "a") == {
        "first_2": [{"kind": "max_active_tasks", "limit": 2}],
        "join": [{"kind": "upstream", "task_ids": ["first_0", "first_1", "first_2"]}],
        "wide": [
            {"kind": "max_active_tasks", "limit": 2},
            {"kind": "pool_too_small", "pool": "narrow", "slots": 2, "wanted": 3},
        ],
        "lazy": [{"kind": "max_active_tasks", "limit": 2}],
    }


async def test_a_limit_of_a_task_counts_its_instances_in_other_runs(cli: Cli, history: History) -> None:
    await history.file(FLOW)
    await cli("runs", "trigger", "flow", "--run-id", "a")
    await history.attempts_begin()
    await cli("runs", "trigger", "flow", "--run-id", "b")

    found = await blocks(cli, "flow", "b")

    assert found["first_0"] == [{"kind": "max_active_tis_per_dag", "limit": 1}]
    assert found["first_2"] == []
    assert found["wide"] == [{"kind": "pool_missing", "pool": "narrow"}]


async def test_a_task_whose_backfill_was_deleted_with_its_dag_waits_for_no_limit_of_it(cli: Cli, history: History) -> None:
    await history.file('from tidegate import Dag\nwith Dag("d") as dag: dag.command("a", ["true"])\n')
    await cli("runs", "trigger", "d", "--run-id", "r")
    await history.database.pool.execute("UPDATE dag_run SET backfill_id = 7")

    assert await blocks(cli, "d", "r") == {"a": []}


async def test_a_full_pool_is_named_with_its_slots(cli: Cli, history: History) -> None:
    await cli("pools", "set", "default_pool", "1")
    await history.file(FLOW)
    await cli("runs", "trigger", "flow", "--run-id", "a")
    await history.attempts_begin()

    assert (await blocks(cli, "flow", "a"))["lazy"] == [
        {"kind": "pool_full", "pool": "default_pool", "slots": 1, "open": 0, "wanted": 1}
    ]


async def test_a_task_that_was_marked_at_work_and_cleared_waits_for_its_attempt(cli: Cli, history: History) -> None:
    await history.file('from tidegate import Dag\nwith Dag("d") as dag: dag.command("a", ["true"])\n')
    await cli("runs", "trigger", "d", "--run-id", "r")
    (attempt,) = await history.attempts_begin()
    await cli("tasks", "mark", "d", "r", "a", "success")
    await cli("runs", "clear", "d", "r", "--yes")
    await history.clock("d")
    await history.reconsidered()

    before = await blocks(cli, "d", "r")
    await history.attempt_ends(attempt.submission_id, "killed")

    assert before == {"a": [{"kind": "attempt_open"}]}
    assert await blocks(cli, "d", "r") == {"a": []}


async def test_a_failed_task_waits_for_its_next_try(cli: Cli, history: History) -> None:
    await history.file('from tidegate import Dag\nwith Dag("d") as dag: dag.command("lazy", ["true"], retries=1)\n')
    await cli("runs", "trigger", "d", "--run-id", "a")
    (attempt,) = await history.attempts_begin()
    await history.attempt_ends(attempt.submission_id, "failed")

    (block,) = (await blocks(cli, "d", "a"))["lazy"]

    assert block["kind"] == "next_try"


async def test_a_task_waits_for_the_run_before_its_own(cli: Cli, history: History) -> None:
    await history.file(CHAIN)
    await history.clock("chain")
    await history.reconsidered()

    first, second = [f"scheduled__2013-01-0{day}T00:00:00+00:00" for day in (1, 2)]

    assert await blocks(cli, "chain", first) == {"only": []}
    assert await blocks(cli, "chain", second) == {"only": [{"kind": "previous_run", "run_id": first}]}


async def test_a_queued_run_says_what_it_waits_for(cli: Cli, history: History) -> None:
    await history.file(FLOW)
    for run_id in ("a", "b", "c", "d"):
        await cli("runs", "trigger", "flow", "--run-id", run_id)
    await cli("dags", "pause", "flow")

    page = (await cli("runs", "show", "flow", "d", "--progress", "--json")).json

    assert page["blocked_by"] == [
        {"kind": "dag_paused"},
        {"kind": "max_active_runs", "limit": 2},
        {"kind": "runs_ahead", "count": 1},
    ]
    assert (page["counts"], page["working"], page["waiting"]) == ({"none": 6}, [], [])


async def test_a_run_of_later_says_when(cli: Cli, history: History) -> None:
    await history.file(FLOW)
    await cli("runs", "trigger", "flow", "--run-id", "a", "--run-after", "2040-01-01")

    answer = await cli("runs", "show", "flow", "a", "--progress")

    assert "  waits for  its time: it may start at 2040-01-01 00:00:00Z\n" in answer.out


async def test_the_whole_installation_may_be_full_by_the_settings_of_its_daemons(cli: Cli, history: History) -> None:
    await history.no_daemon()
    await history.daemon(parallelism=1)
    await history.file(FLOW)
    await cli("runs", "trigger", "flow", "--run-id", "a")
    await history.attempts_begin()
    await cli("runs", "trigger", "flow", "--run-id", "b")

    assert (await blocks(cli, "flow", "b"))["lazy"] == [{"kind": "parallelism", "limit": 1}]


async def test_that_there_is_no_daemon_is_said(cli: Cli, history: History) -> None:
    await history.no_daemon()
    await history.file(FLOW)
    await cli("runs", "trigger", "flow", "--run-id", "a")

    answer = await cli("runs", "show", "flow", "a", "--progress")

    assert "  waits for  a daemon: none is alive\n" in answer.out


async def test_instances_of_a_mapped_task_work_and_wait_by_themselves(cli: Cli, history: History) -> None:
    await history.file(MAPPED)
    await cli("runs", "trigger", "mapped", "--run-id", "a")
    (attempt,) = await history.attempts_begin()
    await history.attempt_ends(attempt.submission_id, result=["x", "y", "z"])
    await history.attempts_begin()

    page = (await cli("runs", "show", "mapped", "a", "--progress", "--json")).json

    assert [working["task_id"] for working in page["working"]] == ["load[0]", "load[1]"]
    assert page["waiting"] == [
        {"task_id": "load", "state": "none", "blocked_by": [{"kind": "elements", "left": 3, "total": 3}]},
        {"task_id": "load[2]", "state": "scheduled", "blocked_by": [{"kind": "max_active_tasks", "limit": 2}]},
    ]


async def test_progress_is_printed(cli: Cli, history: History) -> None:
    await history.file(FLOW)
    await cli("runs", "trigger", "flow", "--run-id", "a")
    await history.attempts_begin()

    out = (await cli("runs", "show", "flow", "latest", "--progress")).out

    assert "  tasks  0 of 6 ended: 1 none, 3 scheduled, 2 running\n" in out
    assert "join     none       first_0, first_1, first_2\n" in out
    assert "lazy     scheduled  other tasks of the run: max_active_tasks is 2\n" in out


async def test_a_run_that_has_ended_neither_works_nor_waits(cli: Cli, history: History) -> None:
    await history.file(FLOW)
    await cli("runs", "trigger", "flow", "--run-id", "a")
    await cli("runs", "mark", "flow", "a", "success")

    page = (await cli("runs", "show", "flow", "a", "--progress", "--json")).json

    assert (page["ended"], page["counts"], page["working"], page["waiting"]) == (6, {"success": 6}, [], [])


async def test_a_run_that_does_not_exist_has_no_progress(cli: Cli, history: History) -> None:
    await history.file(FLOW)

    answer = await cli("runs", "show", "flow", "nope", "--progress", "--json")

    assert answer == (1, "", "tidegate: DAG 'flow' has no run 'nope'; `tidegate runs list flow` shows all\n")
