"""What the tasks in the queue of a pool wait for."""

import msgspec

from tests.shapes import NOW, run_view
from tidegate.handlers.admission.capacity import AdmissionState
from tidegate.handlers.explain.queue import queue_blockers
from tidegate.schemas.explain.reasons import DagPaused, PoolFull
from tidegate.schemas.state import RunState, TaskState
from tidegate.schemas.view import PoolView, WaitingTask


def test_tasks_beside_the_next_admission_have_their_reasons() -> None:
    """The first takes the slot. The second is paused, and waits for it as well; the third waits for the slot alone."""
    first, second, third = (WaitingTask(1, index, "d", f"t{index}", TaskState.SCHEDULED, 0) for index in range(3))
    paused = msgspec.structs.replace(second, is_paused=True)
    pool = PoolView(name="p", open=1, slots=1)
    state = AdmissionState(NOW, pool, (first, paused, third), runs={1: run_view(1, state=RunState.RUNNING)})

    full = PoolFull("p", 1, 0, 1)
    assert queue_blockers(state) == {(1, 0): None, (1, 1): (DagPaused(), full), (1, 2): (full,)}
