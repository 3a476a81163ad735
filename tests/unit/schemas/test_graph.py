"""A DAG version as decisions see it."""

from collections.abc import Callable, Sequence
from datetime import datetime

import pytest

from tests.shapes import NOW, A, graph, spec, task
from tidegate.schemas.dag import TaskSpec
from tidegate.schemas.graph import Graph, graph_of
from tidegate.schemas.timetable.spec import Once
from tidegate.schemas.timetable.tick import Bounds


def test_edges_are_counted_upwards_and_listed_downwards() -> None:
    dag = graph("a", "b", "c < a b", "d < a c")

    assert [(node.task.task_id, node.upstream_count, node.downstream) for node in dag.nodes] == [
        ("a", 0, (2, 3)),
        ("b", 0, (2,)),
        ("c", 2, (3,)),
        ("d", 2, ()),
    ]


SETUP, WORK = task("setup", is_setup=True), task("work < setup")
TEARDOWN = task("teardown < setup work", teardown_of=("setup",))


@pytest.mark.parametrize(
    ("tasks", "decisive"),
    [
        pytest.param(("a", "b < a", "c"), "bc", id="nothing comes after a leaf"),
        pytest.param((SETUP, WORK, TEARDOWN), ["work"], id="a teardown does not matter"),
        pytest.param((SETUP, WORK, TEARDOWN, "d < teardown"), ["work", "d"], id="what comes after a teardown does"),
        pytest.param(
            (SETUP, WORK, task("teardown < setup work", teardown_of=("setup",), on_failure_fail_run=True)),
            ["teardown"],
            id="a teardown matters that says so",
        ),
        pytest.param(
            (SETUP, WORK, TEARDOWN, task("after < teardown", teardown_of=("setup",))), ["work"], id="teardowns in a row"
        ),
        pytest.param((SETUP, WORK, TEARDOWN, "d < work"), ["d"], id="a teardown beside a leaf"),
    ],
)
def test_the_last_tasks_that_matter_decide_about_the_run(tasks: Sequence[str | TaskSpec], decisive: Sequence[str]) -> None:
    """R22 U15"""
    assert [node.task.task_id for node in graph(*tasks).nodes if node.decisive] == list(decisive)


def test_a_teardown_knows_its_setups() -> None:
    other = task("other", is_setup=True)

    dag = graph(SETUP, other, task("teardown < setup other", teardown_of=("setup", "other")))

    assert [node.setups for node in dag.nodes] == [(), (), (0, 1)]


def test_only_empty_tasks_are_instant() -> None:
    assert [node.ends_at_once for node in graph("a", "b!").nodes] == [False, True]


@pytest.mark.parametrize(("lines", "instant"), [((), True), (("a!", "b! < a"), True), (("a!", "b"), False)])
def test_a_dag_is_instant_when_all_its_tasks_are(lines: tuple[str, ...], instant: bool) -> None:
    assert graph(*lines).ends_at_once is instant


def test_a_graph_has_what_its_version_says() -> None:
    dag = graph_of(7, spec("a", dag_id="x", schedule=A, limit=3))

    assert (dag.dag_id, dag.version_id, dag.schedule, dag.max_active_runs) == ("x", 7, A, 3)


@pytest.mark.parametrize(
    ("facts", "sequential"),
    [({}, False), ({"depends_on_past": True}, True), ({"wait_for_downstream": True}, True)],
)
def test_a_dag_is_sequential_when_a_task_waits_for_the_run_before(facts: dict[str, bool], sequential: bool) -> None:
    dag = graph(task("a!"), task("b!", **facts))

    assert (dag.sequential, dag.ends_at_once) == (sequential, not sequential)


@pytest.mark.parametrize(
    ("facts", "dated"), [({}, False), ({"start_date": NOW}, True), ({"end_date": NOW}, True)], ids=["always", "from", "until"]
)
def test_a_dag_is_dated_when_a_task_is_no_part_of_all_its_runs(facts: dict[str, datetime], dated: bool) -> None:
    assert graph(task("a"), task("b", **facts)).dated is dated


def test_a_graph_has_the_limits_and_bounds_of_its_version() -> None:
    dag = graph(
        "a",
        max_active_tasks=3,
        run_timeout_s=9.0,
        max_failed_runs=2,
        fail_fast=True,
        timetable=Once(),
        start_date=NOW,
        end_date=NOW,
        missed="all",
        run_immediately=True,
    )

    assert (dag.max_active_tasks, dag.run_timeout_s, dag.max_failed_runs, dag.fail_fast) == (3, 9.0, 2, True)
    assert dag.timetable == Once()
    assert dag.bounds == Bounds(start_date=NOW, end_date=NOW, missed="all", run_immediately=True)


def test_two_readings_of_a_version_are_two_graphs() -> None:
    """What follows from a graph is cached by its identity: comparing it by content would cost what the cache saves."""
    assert graph("a") != graph("a")


@pytest.mark.parametrize("read", [Graph.node, Graph.label, Graph.upstream_of, Graph.downstream_of])
def test_a_removed_instance_is_no_task_of_a_version(read: Callable[[Graph, int], object]) -> None:
    with pytest.raises(LookupError, match="instance -1 was removed: the version of its run lacks the task"):
        read(graph("a", "b < a"), -1)
