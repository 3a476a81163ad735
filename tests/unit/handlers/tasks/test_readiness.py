"""Whether a task is ready, and the reason if not."""

from collections.abc import Mapping

import pytest

from tests.shapes import graph, task
from tidegate.handlers.tasks.readiness import NotReady, readiness
from tidegate.schemas.explain.reasons import InstancesNotDone, PreviousRunNotDone, UpstreamNotDone
from tidegate.schemas.graph import Graph
from tidegate.schemas.state import TaskState
from tidegate.schemas.view import Instance

NONE, RUN, S, F = TaskState.NONE, TaskState.SCHEDULED, TaskState.SUCCESS, TaskState.FAILED

TWO = graph("a", "b < a")
MAPPED = graph("a", task("b:always < a", over="a"))
TEARDOWN = graph("a", "b < a", task("c < a b", teardown_of=("a",)))


@pytest.mark.parametrize(
    ("dag", "instance", "states", "expected"),
    [
        pytest.param(TWO, Instance(0), {}, RUN, id="nothing is before it"),
        pytest.param(TWO, Instance(1, awaited=1), {0: NONE}, UpstreamNotDone, id="what is before it has not ended"),
        pytest.param(TWO, Instance(1, awaited=1, success=1), {0: S}, RUN, id="what is before it succeeded"),
        pytest.param(TWO, Instance(1, awaited=1, failed=1), {0: F}, TaskState.UPSTREAM_FAILED, id="it failed"),
        pytest.param(TWO, Instance(1, awaited=1, skipped=1), {0: TaskState.SKIPPED}, TaskState.SKIPPED, id="it was skipped"),
        pytest.param(TWO, Instance(0, waits_for_past=True), {}, PreviousRunNotDone, id="the run before has yet to allow it"),
        pytest.param(
            TWO, Instance(1, awaited=1, failed=1, waits_for_past=True), {0: F}, TaskState.UPSTREAM_FAILED, id="no past helps"
        ),
        pytest.param(MAPPED, Instance(1, awaited=1), {0: NONE}, UpstreamNotDone, id="there is no list yet"),
        pytest.param(MAPPED, Instance(1, awaited=1, success=1), {0: S}, RUN, id="there is a list"),
        pytest.param(MAPPED, Instance(1, awaited=2, success=1, elements=2), {0: S}, InstancesNotDone, id="its instances work"),
        pytest.param(TEARDOWN, Instance(2, awaited=2, success=1), {0: S, 1: NONE}, UpstreamNotDone, id="before teardown"),
        pytest.param(TEARDOWN, Instance(2, awaited=2, success=1, failed=1), {0: S, 1: F}, RUN, id="to be torn down"),
    ],
)
def test_a_task_is_ready_or_has_a_reason_not_to_be(
    dag: Graph, instance: Instance, states: Mapping[int, TaskState], expected: NotReady | TaskState
) -> None:
    assert readiness(dag.nodes[instance.index], instance, states.__getitem__) is expected
