"""A DAG as people write them, day by day over a change of the clocks: its tasks are real functions and commands."""

from typing import Any

from tests.acceptance.running_daemon import RunningDaemon, Start

DAYS = """
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from tidegate import Dag, follow

ZURICH = ZoneInfo("Europe/Zurich")

with Dag(
    "days",
    schedule="30 2 * * *",
    timezone="Europe/Zurich",
    start_date=datetime(2013, 3, 30, tzinfo=ZURICH),
    end_date=datetime(2013, 4, 1, tzinfo=ZURICH),
    catchup=True,
) as dag:

    @dag.task(retries=1, retry_delay=timedelta(seconds=0.1))
    def count(spark, run):
        if run.ds == "2013-03-31" and run.try_number == 1:
            raise RuntimeError("the disk is full")
        return [run.ds, run.task_id, run.try_number]

    @dag.task
    def which(spark, run):
        return follow("sunday" if run.logical_date.astimezone(ZURICH).weekday() == 6 else "other")

    sunday = dag.command("sunday", ["echo", "{{ ds }}"])
    other = dag.command("other", ["echo", "{{ ds }}"])
    count >> which >> [sunday, other] >> dag.empty("done", trigger_rule="none_failed_min_one_success")

    @dag.task
    def each(spark, run):
        return [run.map_index, run.item]

    @dag.task
    def total(spark, run):
        return run.results["each"]

    each.expand(over=count) >> total
"""
SATURDAY, SUNDAY = "scheduled__2013-03-30T01:30:00+00:00", "scheduled__2013-03-31T01:30:00+00:00"


async def states(daemon: RunningDaemon, run_id: str) -> dict[str, tuple[str, int]]:
    """By task, its state and how often it was tried."""
    page = await daemon.answer("runs", "show", "days", run_id)
    tasks: list[dict[str, Any]] = [entry["task"] for entry in page["tasks"]]
    return {task["task_id"]: (task["state"], task["try_number"]) for task in tasks}


async def has_succeeded(daemon: RunningDaemon, *run_ids: str) -> bool:
    succeeded = "SELECT array_agg(run_id ORDER BY run_id) = $1 FROM dag_run WHERE state = 'success'"
    return await daemon.holds(succeeded, sorted(run_ids))


async def test_days_over_a_change_of_clocks_retry_branch_pass_results_on_and_run_again(start: Start, spark_connect: str) -> None:
    """The night of the 31st has no half past two: that run is due when the clocks have moved."""
    async with start(spark_remote=spark_connect) as daemon:
        (daemon.dags / "days.py").write_text(DAYS)
        await daemon.until(lambda: daemon.knows("days"))
        await daemon.until(lambda: has_succeeded(daemon, SATURDAY, SUNDAY))

        saturday, sunday = await states(daemon, SATURDAY), await states(daemon, SUNDAY)
        results = [await daemon.answer("tasks", "result", "days", run_id, "total") for run_id in (SATURDAY, SUNDAY)]
        await daemon.said("runs", "clear", "days", SUNDAY, "--task", "which", "--yes")
        await daemon.until(lambda: has_succeeded(daemon, SATURDAY, SUNDAY))
        again = await states(daemon, SUNDAY)

    assert (saturday["count"], saturday["sunday"], saturday["other"]) == (("success", 1), ("skipped", 0), ("success", 1))
    assert (sunday["count"], sunday["sunday"], sunday["other"]) == (("success", 2), ("success", 1), ("skipped", 0))
    assert results == [
        [[0, "2013-03-30"], [1, "count"], [2, 1]],
        [[0, "2013-03-31"], [1, "count"], [2, 2]],
    ]
    assert (again["count"], again["which"], again["sunday"], again["other"]) == (
        *(("success", 2), ("success", 2), ("success", 2), ("skipped", 0)),
    )
