"""A DAG version as decisions see it."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.shapes import NOW, A, graph, spec, task
from tidegate.schemas.conditions.condition import DatasetRef, InputDeadlineSpec, PatternRef, Timing
from tidegate.schemas.dag import DagSpec, DeadlineSpec, TaskSpec
from tidegate.schemas.graph import (
    Graph,
    element_index,
    element_of,
    graph_of,
    is_removed,
    per_graph,
    position_of,
    reachable,
)
from tidegate.schemas.params import Params, ParamSpec
from tidegate.schemas.receiver import Callback, EmailReceiver, On
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


def test_elements_are_numbered_above_the_tasks() -> None:
    """Functions of Postgres have the same numbers."""
    assert (element_index(0, 0), element_index(2, 3)) == (1_048_576, 1_048_576 + 2 * 16_384 + 3)
    assert [(position_of(index), element_of(index)) for index in (0, 7, element_index(0, 0), element_index(2, 3))] == [
        (0, None),
        (7, None),
        (0, 0),
        (2, 3),
    ]
    assert (is_removed(-1), is_removed(0)) == (True, False)


def test_an_element_has_the_neighbours_of_its_task_and_reads_one_element_of_the_list() -> None:
    dag = graph("a", "b", task("c < a b", over="a"), "d < c")
    index = element_index(2, 5)

    assert (dag.upstream_of(index), dag.downstream_of(index), dag.read_by(index)) == ((0, 1), (3,), (1,))
    assert (dag.label(index), dag.label(3)) == ("c[5]", "d")


def test_all_that_can_be_reached_is_found() -> None:
    dag = graph("a", "b < a", "c < b", "d < a c", "e")

    assert (reachable([1], dag.downstream_of), reachable([3, 4], dag.upstream_of)) == ({1, 2, 3}, {0, 1, 2, 3, 4})


def test_a_value_of_a_graph_is_derived_once() -> None:
    asked: list[tuple[str, int]] = []

    @per_graph
    def derived(of: Graph, number: int) -> int:
        asked.append((of.dag_id, number))
        return number * 2

    one, other = graph("a"), graph("a", dag_id="other")

    assert [derived(one, 1), derived(one, 1), derived(one, 2), derived(other, 1)] == [2, 2, 4, 2]
    assert asked == [("d", 1), ("d", 2), ("other", 1)]


MAIL = Callback(On.FAILURE, EmailReceiver(("ops@example.org",)))
DUE = DeadlineSpec(name="soon", after_s=60)


@pytest.mark.parametrize(
    ("of", "has_deadlines", "watched"),
    [
        pytest.param(spec("a"), False, False, id="neither"),
        pytest.param(spec("a", deadlines=(DUE,)), True, False, id="a deadline of runs"),
        pytest.param(spec("a", task("b", deadlines=(DUE,))), True, True, id="a deadline of a task"),
        pytest.param(spec("a", callbacks=(MAIL,)), False, False, id="a callback of runs"),
        pytest.param(spec("a", task("b", callbacks=(MAIL,))), False, True, id="a callback of a task"),
    ],
)
def test_a_graph_knows_what_is_watched(of: DagSpec, *, has_deadlines: bool, watched: bool) -> None:
    dag = graph_of(1, of)

    assert (dag.has_deadlines, dag.watched) == (has_deadlines, watched)


def test_a_graph_has_the_options_of_its_version() -> None:
    param, deadline = ParamSpec(default=1), Timing(deadline=InputDeadlineSpec(after_s=60))
    params = {"params": {"n": param}, "extra_params": True}
    facts: dict[str, Any] = {**params, "callbacks": (MAIL,), "deadlines": (DUE,), "timing": deadline}

    dag = graph("a", allow_backfills=False, missed_per_minute=4, mode="each", together=True, **facts)

    assert (dag.params, dag.callbacks, dag.deadlines, dag.timing) == (Params({"n": param}, extra=True), (MAIL,), (DUE,), deadline)
    assert (dag.allow_backfills, dag.catchup_interval) == (False, timedelta(seconds=15))
    assert (dag.one_run_per_event, dag.requires_both, dag.mapped) == (True, True, False)
    assert (graph("a").catchup_interval, graph("a").dataset_uris) == (None, frozenset())
    assert graph("a", schedule=A).dataset_uris == {A.uri}
    assert graph("a", task("b < a", over="a")).mapped


@pytest.mark.parametrize(
    ("of", "inspects", "expires"),
    [
        pytest.param(spec("a"), False, False, id="no condition"),
        pytest.param(spec("a", schedule=A), False, False, id="a dataset"),
        pytest.param(spec("a", schedule=DatasetRef("s://a", "n > 1")), True, False, id="a filter"),
        pytest.param(spec("a", schedule=DatasetRef("s://a", "", 60)), True, True, id="an expiry"),
        pytest.param(spec("a", schedule=PatternRef("s://*")), True, False, id="a pattern"),
        pytest.param(spec("a", schedule=A, mode="each"), True, False, id="a run of each event"),
        pytest.param(spec("a", schedule=A, together=True), True, False, id="with a tick"),
        pytest.param(spec("a", schedule=A, timing=Timing(within_s=60)), True, False, id="a window"),
        pytest.param(spec("a", schedule=A, timing=Timing(deadline=InputDeadlineSpec(after_s=60))), True, True, id="a deadline"),
    ],
)
def test_a_condition_may_depend_on_more_than_the_datasets_of_events(of: DagSpec, *, inspects: bool, expires: bool) -> None:
    dag = graph_of(1, of)

    assert (dag.inspects_events, dag.has_expiry) == (inspects, expires)
