"""What a run and its tasks wait for, in words."""

from datetime import UTC, datetime
from typing import get_args

import pytest

from tidegate.daemon.cli.pages.progress import print_progress, text_of
from tidegate.schemas.explain import reasons as shown
from tidegate.schemas.state import RunState, TaskState

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)

TEXTS: list[tuple[shown.Block, str]] = [
    (shown.UpstreamNotDone(("a", "b")), "a, b"),
    (shown.ElementsNotDone(2, 5), "its instances: 2 of 5 have not ended"),
    (shown.RunBefore("r0"), "the run before it, r0"),
    (shown.NextTry(NOON), "its next try at 2026-11-21 12:00:00Z"),
    (shown.NextTry(None), "its next try"),
    (shown.NotYetDue(NOON), "its time: it may start at 2026-11-21 12:00:00Z"),
    (shown.RunsAhead(1), "1 queued run before it"),
    (shown.RunsAhead(2), "2 queued runs before it"),
    (shown.PoolMissing("p"), "pool 'p', which does not exist"),
    (shown.PoolTooSmall("p", 2, 3), "pool 'p' to become larger: it has 2 slots, 3 are needed"),
    (shown.PoolFull("p", 2, 0, 1), "pool 'p': 0 of its 2 slots are open, 1 is needed"),
    (shown.PoolFull("p", 9, 1, 2), "pool 'p': 1 of its 9 slots are open, 2 are needed"),
    (shown.RunLimit(16), "room in the run: max_active_tasks is 16"),
    (shown.TaskLimitInRun(1), "other instances of it in the run: max_active_tis_per_dagrun is 1"),
    (shown.TaskLimitInDag(1), "other instances of it in the DAG: max_active_tis_per_dag is 1"),
    (shown.Parallelism(32), "room in the whole installation: parallelism is 32"),
    (shown.AttemptOpen(), "its attempt to end, which was at work when a user decided about the task"),
    (shown.DagLimit(1), "other runs of the DAG: max_active_runs is 1"),
    (shown.DagPaused(), "the DAG to be unpaused"),
    (shown.DagStale(), "the DAG to be in a DAG file again"),
    (shown.NoDaemon(), "a daemon: none shows any life"),
]


@pytest.mark.parametrize(("block", "expected"), TEXTS)
def test_what_is_waited_for_is_said_in_words(block: shown.Block, expected: str) -> None:
    assert text_of(block) == expected


def test_every_kind_of_block_has_its_words() -> None:
    assert {type(block) for block, _ in TEXTS} == set(get_args(shown.Block))


def test_progress_is_shown_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    page = shown.Progress(
        dag_id="d",
        run_id="r1",
        state=RunState.RUNNING,
        tasks=3,
        ended=1,
        counts={TaskState.NONE: 1, TaskState.RUNNING: 1, TaskState.SUCCESS: 1},
        blocked_by=(shown.NoDaemon(),),
        working=(shown.Working("b", TaskState.RUNNING, 2, NOON, "command", "worker-1"),),
        waiting=(
            shown.Waiting("c", TaskState.NONE, (shown.UpstreamNotDone(("b",)), shown.RunBefore("r0"))),
            shown.Waiting("e", TaskState.SCHEDULED, ()),
        ),
    )

    print_progress(page, NOON.replace(minute=2))

    assert capsys.readouterr().out.splitlines() == [
        "d r1",
        "  state      running",
        "  waits for  a daemon: none shows any life",
        "  tasks      1 of 3 ended: 1 none, 1 running, 1 success",
        "",
        "at work",
        "TASK  STATE    TRY  SINCE                 FOR    BACKEND  HOST",
        "b     running  2    2026-11-21 12:00:00Z  2m00s  command  worker-1",
        "",
        "waiting",
        "TASK  STATE      WAITS FOR",
        "c     none       b; the run before it, r0",
        "e     scheduled  its turn, which is about to come",
    ]


def test_instances_of_a_mapped_task_that_wait_for_the_same_have_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    blocks: list[tuple[shown.TaskBlock, ...]] = [(shown.RunLimit(2),), (shown.RunLimit(2),), (shown.NextTry(None),)]
    waiting = [shown.Waiting(f"load[{n}]", TaskState.SCHEDULED, blocked_by) for n, blocked_by in enumerate(blocks)]
    page = shown.Progress(
        "d", "r1", RunState.RUNNING, 2, 1, {}, (), (), (*waiting, shown.Waiting("load", TaskState.SCHEDULED, ()))
    )

    print_progress(page, NOON)

    assert capsys.readouterr().out.splitlines()[-3:] == [
        "load: 2 instances  scheduled  room in the run: max_active_tasks is 2",
        "load[2]            scheduled  its next try",
        "load               scheduled  its turn, which is about to come",
    ]
