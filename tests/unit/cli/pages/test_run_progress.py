"""The progress of a run, printed."""

from datetime import UTC, datetime

import pytest

from tidegate.daemon.cli.pages.run_progress import print_page
from tidegate.schemas.explain import reasons
from tidegate.schemas.explain.gates import ActiveTask, BlockedTask, RunProgress
from tidegate.schemas.state import RunState, TaskState

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def test_progress_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    page = RunProgress(
        dag_id="d",
        run_id="r1",
        state=RunState.RUNNING,
        tasks=3,
        ended=1,
        counts={TaskState.NONE: 1, TaskState.RUNNING: 1, TaskState.SUCCESS: 1},
        blocked_by=(reasons.NoDaemon(),),
        working=(ActiveTask("b", TaskState.RUNNING, 2, NOON, "command", "worker-1"),),
        waiting=(
            BlockedTask("c", TaskState.NONE, (reasons.UpstreamNotDone(("b",)), reasons.PreviousRunNotDone("r0"))),
            BlockedTask("e", TaskState.SCHEDULED, ()),
        ),
    )

    print_page(page, NOON.replace(minute=2))

    assert capsys.readouterr().out.splitlines() == [
        "d r1",
        "  state      running",
        "  waits for  a daemon: none is alive",
        "  tasks      1 of 3 ended: 1 none, 1 running, 1 success",
        "",
        "at work",
        "TASK  STATE    TRY  SINCE                 FOR    BACKEND  HOST",
        "b     running  2    2026-11-21 12:00:00Z  2m00s  command  worker-1",
        "",
        "waiting",
        "TASK  STATE      WAITS FOR",
        "c     none       b; the previous run, r0",
        "e     scheduled  the next decision of a daemon",
    ]


def test_instances_of_a_mapped_task_with_the_same_reasons_share_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    blocks: list[tuple[reasons.ProgressReason, ...]] = [
        (reasons.MaxActiveTasks(2),),
        (reasons.MaxActiveTasks(2),),
        (reasons.NextTry(None),),
    ]
    waiting = [BlockedTask(f"load[{n}]", TaskState.SCHEDULED, blocked_by) for n, blocked_by in enumerate(blocks)]
    page = RunProgress("d", "r1", RunState.RUNNING, 2, 1, {}, (), (), (*waiting, BlockedTask("load", TaskState.SCHEDULED, ())))

    print_page(page, NOON)

    assert capsys.readouterr().out.splitlines()[-3:] == [
        "load: 2 instances  scheduled  other tasks of the run: max_active_tasks is 2",
        "load[2]            scheduled  its next try at unknown",
        "load               scheduled  the next decision of a daemon",
    ]
