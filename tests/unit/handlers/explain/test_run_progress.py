"""The progress of a run, case by case."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from tests.shapes import NOW, graph, task
from tests.unit.handlers.progress_facts import NONE, QUEUED, RETRY, RUNNING, SCHEDULED, F, S, blocks, facts, instances, pools
from tidegate.handlers.explain.run_progress import ProgressFacts, progress, waiting_task
from tidegate.schemas.backfill import BackfillCapacity
from tidegate.schemas.explain import reasons
from tidegate.schemas.explain.facts import OpenAttempt
from tidegate.schemas.explain.gates import ActiveTask
from tidegate.schemas.state import TASK_ENDED, BackfillState, RunState, TaskState
from tidegate.schemas.view import Instance, WaitingTask

LATER = NOW + timedelta(minutes=5)


def test_tasks_are_counted_by_state_in_the_order_of_the_states() -> None:
    five = graph("a", "b", "c", "d", "e < a")

    page = progress(five, instances(five, S, F, RUNNING, S, NONE), facts())

    assert list(page.counts.items()) == [(NONE, 1), (RUNNING, 1), (S, 2), (F, 1)]
    assert (page.tasks, page.ended) == (5, 3)


def test_progress_names_the_run_and_its_state() -> None:
    page = progress(graph("a"), [Instance(0, S)], facts({"state": RunState.FAILED}))

    assert (page.dag_id, page.run_id, page.state) == ("d", "r1", RunState.FAILED)


def test_a_queued_run_counts_its_tasks_and_lists_none() -> None:
    page = progress(graph("a", "b < a"), [], facts({"state": RunState.QUEUED}))

    assert (page.tasks, page.ended, page.counts, page.working, page.waiting) == (2, 0, {NONE: 2}, (), ())


@pytest.mark.parametrize("state", sorted(TASK_ENDED))
def test_an_ended_task_is_neither_active_nor_waiting(state: TaskState) -> None:
    page = progress(graph("a"), [Instance(0, state)], facts())

    assert (page.working, page.waiting, page.ended) == ((), (), 1)


@pytest.mark.parametrize("state", [QUEUED, RUNNING])
def test_an_active_task_has_its_start_try_and_host(state: TaskState) -> None:
    attempt = OpenAttempt(task_index=0, backend="command", host="worker-1", since=NOW)

    (working,) = progress(graph("a"), [Instance(0, state, try_number=2)], facts(attempts={0: attempt})).working

    assert working == ActiveTask("a", state, 2, NOW, "command", "worker-1")


def test_an_active_task_without_an_attempt_is_listed() -> None:
    (working,) = progress(graph("a"), [Instance(0, QUEUED, try_number=1)], facts()).working

    assert working == ActiveTask("a", QUEUED, 1, None, None, None)


@pytest.mark.parametrize("state", [NONE, SCHEDULED, RETRY])
def test_a_waiting_task_has_its_state(state: TaskState) -> None:
    (waiting,) = progress(graph("a"), [Instance(0, state)], facts()).waiting

    assert (waiting.task_id, waiting.state) == ("a", state)


def test_the_admission_sees_a_waiting_task_with_its_limits_and_those_of_its_run() -> None:
    dag = graph(task("a"), task("b", max_active_per_dag=3, max_active_per_run=2, pool_slots=4))
    around = facts({"backfill_id": 3, "is_paused": True, "hold_reason": "why"}, attempted=frozenset({1}))

    seen = waiting_task(dag, Instance(1, SCHEDULED, try_number=2), around)

    assert seen == WaitingTask(
        dag_run_id=1,
        task_index=1,
        dag_id="d",
        task_id="b",
        state=SCHEDULED,
        try_number=2,
        pool_slots=4,
        per_dag=3,
        per_run=2,
        is_paused=True,
        hold_reason="why",
        is_attempted=True,
        backfill_id=3,
    )


def test_a_task_waits_for_its_unfinished_upstream() -> None:
    join = graph("a", "b", "c", "d", "join < a b c d")

    found = blocks(join, instances(join, S, RUNNING, NONE, RETRY, NONE))

    assert found == (reasons.UpstreamNotDone(("b", "c", "d")),)


@pytest.mark.parametrize(
    ("line", "before", "expected"),
    [
        ("x < a b", (S, RUNNING), [reasons.UpstreamNotDone(("b",))]),
        ("x < a b", (F, RUNNING), []),
        ("x:one_success < a b", (S, RUNNING), []),
        ("x:one_success < a b", (F, RUNNING), [reasons.UpstreamNotDone(("b",))]),
        ("x:all_done < a b", (F, RUNNING), [reasons.UpstreamNotDone(("b",))]),
        ("x < a b", (S, S), []),
    ],
)
def test_a_task_waits_until_its_trigger_rule_can_decide(
    line: str, before: tuple[TaskState, ...], expected: list[reasons.Reason]
) -> None:
    three = graph("a", "b", line)

    assert list(blocks(three, instances(three, *before, NONE))) == expected


def test_a_teardown_waits_for_all_upstream_after_its_setup_failed() -> None:
    lines = (task("create", is_setup=True), task("use"), task("drop < create use", teardown_of=("create",)))
    three = graph(*lines)

    assert blocks(three, instances(three, F, RUNNING, NONE)) == (reasons.UpstreamNotDone(("use",)),)


def test_a_task_waits_for_upstream_and_for_the_previous_run() -> None:
    two = graph("a", "b < a")

    found = blocks(two, instances(two, RUNNING, NONE, waits_for_past=True))

    assert found == (reasons.UpstreamNotDone(("a",)), reasons.PreviousRunNotDone("r0"))


def test_a_task_waits_for_the_previous_run_alone() -> None:
    assert blocks(graph("a"), [Instance(0, NONE, waits_for_past=True)]) == (reasons.PreviousRunNotDone("r0"),)


def test_a_failed_task_waits_for_its_next_try() -> None:
    assert blocks(graph("a*2"), [Instance(0, RETRY, 1, next_try_at=LATER)]) == (reasons.NextTry(LATER),)


HOLD = reasons.DagHeld("why")


@pytest.mark.parametrize(
    ("instance", "expected"),
    [
        (Instance(0, NONE), [HOLD]),
        (Instance(0, NONE, waits_for_past=True), [HOLD, reasons.PreviousRunNotDone("r0")]),
        (Instance(0, SCHEDULED), [HOLD]),
        (Instance(0, RETRY, 1, next_try_at=NOW - timedelta(minutes=5)), [HOLD, reasons.NextTry(NOW - timedelta(minutes=5))]),
    ],
)
def test_a_waiting_task_of_a_held_dag_waits_for_its_release(instance: Instance, expected: list[reasons.Reason]) -> None:
    page = progress(graph("a*2"), [instance], facts({"hold_reason": "why"}))

    assert ([list(task.blocked_by) for task in page.waiting], page.blocked_by) == ([expected], (HOLD,))


LIMITED = task("a", max_active_per_dag=3, max_active_per_run=2)
MINE, OTHERS = ("d", 1, "a"), ("d", 2, "a")
OF_POOLS = {"few": BackfillCapacity(3, BackfillState.RUNNING, 1, None, 1, share_slots=1, occupied=1)}
OF_POOLS_LIMIT = reasons.BackfillLimit(3, "share", 1)


@pytest.mark.parametrize(
    ("around", "expected"),
    [
        (facts(), []),
        (facts({"is_paused": True}), [reasons.DagPaused()]),
        (facts({"hold_reason": "why"}), [HOLD]),
        (facts({"active_tasks": 15}), []),
        (facts({"active_tasks": 16}), [reasons.MaxActiveTasks(16)]),
        (facts({"active_tasks": 3, "max_active_tasks": 2}), [reasons.MaxActiveTasks(2)]),
        (facts(limited=[MINE, OTHERS]), []),
        (facts(limited=[MINE, MINE]), [reasons.MaxActiveTisPerDagrun(2)]),
        (facts(limited=[MINE, OTHERS, OTHERS]), [reasons.MaxActiveTisPerDag(3)]),
        (facts(limited=[MINE, MINE, OTHERS]), [reasons.MaxActiveTisPerDagrun(2), reasons.MaxActiveTisPerDag(3)]),
        (facts(limited=[("another", 9, "a")] * 3 + [("d", 1, "b")] * 3), []),
        (facts(parallelism=4, active=3), []),
        (facts(parallelism=4, active=4), [reasons.Parallelism(4)]),
        (facts(parallelism=0, active=4), []),
        (facts(pools=pools(slots=-1, running=500)), []),
        (facts(pools=pools(slots=3, running=1, queued=1)), []),
        (facts(pools=pools(slots=3, running=2, queued=1)), [reasons.PoolFull("default_pool", 3, 0, 1)]),
        (facts(pools=pools(slots=3, running=5)), [reasons.PoolFull("default_pool", 3, 0, 1)]),
        (facts(attempted=frozenset({0})), [reasons.AttemptOpen()]),
        (facts(pools=pools(slots=0)), [reasons.PoolTooSmall("default_pool", 0, 1)]),
        (facts(pools=pools(slots=9, name="another")), [reasons.PoolMissing("default_pool")]),
        (facts({"pool": "few"}, pools=pools(slots=1, running=1, name="few")), [reasons.PoolFull("few", 1, 0, 1)]),
        (facts({"backfill_id": 3, "pool": "few"}, pools=pools(slots=2, name="few"), backfills=OF_POOLS), [OF_POOLS_LIMIT]),
        (facts({"backfill_id": 3}, pools=pools(slots=2), backfills=OF_POOLS), []),
        (
            facts({"is_paused": True, "active_tasks": 16}, pools={}),
            [reasons.DagPaused(), reasons.MaxActiveTasks(16), reasons.PoolMissing("default_pool")],
        ),
    ],
)
def test_a_scheduled_task_waits_for_every_limit_reached(around: ProgressFacts, expected: list[reasons.Reason]) -> None:
    assert list(blocks(graph(LIMITED), [Instance(0, SCHEDULED)], around)) == expected


def test_a_task_without_limits_of_its_own_ignores_those_of_others() -> None:
    assert blocks(graph("a"), [Instance(0, SCHEDULED)], facts(limited=[MINE] * 9)) == ()


def test_a_task_that_needs_several_slots_waits_for_all_of_them() -> None:
    wide = graph(task("a", pool="wide", pool_slots=3))

    found = blocks(wide, [Instance(0, SCHEDULED)], facts(pools=pools(slots=4, running=2, name="wide")))

    assert found == (reasons.PoolFull("wide", 4, 2, 3),)


QUEUED_RUN = {"state": RunState.QUEUED, "running_runs": 0}


@pytest.mark.parametrize(
    ("run", "others", "expected"),
    [
        (QUEUED_RUN, {}, []),
        ({**QUEUED_RUN, "is_paused": True}, {}, [reasons.DagPaused()]),
        ({**QUEUED_RUN, "hold_reason": "why"}, {}, [HOLD]),
        ({**QUEUED_RUN, "is_stale": True}, {}, [reasons.DagStale()]),
        ({**QUEUED_RUN, "run_after": LATER}, {}, [reasons.NotYetDue(LATER)]),
        ({**QUEUED_RUN, "running_runs": 2}, {"max_active_runs": 3}, []),
        ({**QUEUED_RUN, "running_runs": 3}, {"max_active_runs": 3}, [reasons.MaxActiveRuns(3)]),
        (
            {**QUEUED_RUN, "running_runs": 3, "runs_ahead": 2},
            {"max_active_runs": 3},
            [reasons.MaxActiveRuns(3), reasons.RunsAhead(2)],
        ),
        (QUEUED_RUN, {"daemons": 0}, [reasons.NoDaemon()]),
        ({"state": RunState.RUNNING}, {"daemons": 0}, [reasons.NoDaemon()]),
        ({"state": RunState.RUNNING, "is_paused": True, "is_stale": True, "running_runs": 99, "run_after": LATER}, {}, []),
        ({"state": RunState.RUNNING, "hold_reason": "why"}, {"daemons": 0}, [reasons.NoDaemon(), HOLD]),
        ({"state": RunState.SUCCESS}, {"daemons": 0}, []),
        ({"state": RunState.FAILED, "is_paused": True, "hold_reason": "why"}, {"daemons": 0}, []),
    ],
)
def test_a_run_has_every_reason_against_its_start_or_progress(
    run: Mapping[str, Any], others: Mapping[str, Any], expected: list[reasons.Reason]
) -> None:
    page = progress(graph("a"), [], facts(run, **others))

    assert list(page.blocked_by) == expected


def test_progress_in_json_has_the_kind_of_each_reason() -> None:
    two = graph("a", "b < a")
    page = progress(two, instances(two, SCHEDULED, NONE), facts(pools={}))

    document = msgspec.json.decode(msgspec.json.encode(page))

    assert [waiting["blocked_by"] for waiting in document["waiting"]] == [
        [{"kind": "pool_missing", "pool": "default_pool"}],
        [{"kind": "upstream", "task_ids": ["a"]}],
    ]
    assert (document["state"], document["counts"]) == ("running", {"none": 1, "scheduled": 1})
