"""The progress of runs with mapped tasks."""

import pytest

from tests.shapes import graph, task
from tests.unit.handlers.progress_facts import NONE, RUNNING, SCHEDULED, F, K, S, blocks, facts, instances
from tidegate.handlers.admission.capacity import Capacity
from tidegate.handlers.explain import run_progress
from tidegate.handlers.explain.run_progress import ProgressFacts, capacity, progress
from tidegate.schemas.explain import reasons
from tidegate.schemas.graph import element_index
from tidegate.schemas.state import TaskState
from tidegate.schemas.view import Instance


def mapped(*elements: TaskState) -> list[Instance]:
    """The instances of `list`, of `load`, which is mapped over it, and one of `load` per element."""
    load = Instance(1, NONE, awaited=len(elements), elements=len(elements))
    load.success, load.failed, load.skipped = elements.count(S), elements.count(F), elements.count(K)
    return [Instance(0, S), load, *(Instance(element_index(1, n), state) for n, state in enumerate(elements))]


MAPPED = (task("list"), task("load < list", over="list", max_active_per_run=2))


def test_a_mapped_task_waits_for_its_instances() -> None:
    page = progress(graph(*MAPPED), mapped(S, F, K, RUNNING, SCHEDULED), facts())

    assert [waiting.task_id for waiting in page.waiting] == ["load", "load[4]"]
    assert page.waiting[0].blocked_by == (reasons.InstancesNotDone(2, 5),)
    assert [working.task_id for working in page.working] == ["load[3]"]


def test_instances_of_a_mapped_task_follow_it() -> None:
    three = graph(*MAPPED, "last < load")

    page = progress(three, [*mapped(SCHEDULED, SCHEDULED), Instance(2, NONE, awaited=1)], facts())

    assert [waiting.task_id for waiting in page.waiting] == ["load", "load[0]", "load[1]", "last"]


def test_a_mapped_task_counts_as_one() -> None:
    page = progress(graph(*MAPPED), mapped(S, S, RUNNING), facts())

    assert (page.tasks, page.ended, page.counts) == (2, 1, {NONE: 1, S: 1})


def test_instances_of_a_mapped_task_wait_for_its_limits() -> None:
    page = progress(graph(*MAPPED), mapped(SCHEDULED), facts(limited=[("d", 1, "load")] * 2, pools={}))

    assert page.waiting[-1].blocked_by == (reasons.MaxActiveTisPerDagrun(2), reasons.PoolMissing("default_pool"))


def test_a_mapped_task_that_is_not_expanded_waits_for_its_upstream() -> None:
    two = graph(*MAPPED)

    assert blocks(two, instances(two, RUNNING, NONE)) == (reasons.UpstreamNotDone(("list",)),)


def test_the_limits_of_a_pool_are_counted_once_for_all_instances(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[str] = []

    def capacity_of(around: ProgressFacts, pool: str) -> Capacity:
        counted.append(pool)
        return capacity(around, pool)

    monkeypatch.setattr(run_progress, "capacity", capacity_of)
    page = progress(graph(*MAPPED), mapped(*[SCHEDULED] * 5), facts(pools={}))

    assert len(page.waiting) == 6
    assert counted == ["default_pool"]
