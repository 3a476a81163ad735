"""States of an admission over the tasks of a simulated run."""

import msgspec

from tests.shapes import message
from tests.unit.handlers.simulated_run import SimulatedRun
from tidegate.handlers.admission.capacity import AdmissionState
from tidegate.schemas.message import TasksReady
from tidegate.schemas.view import PoolView

READY = [message(TasksReady(pool="default_pool", limit=100))]


def found(world: SimulatedRun, *, slots: int | None = 100) -> AdmissionState:
    """All the tasks of a run, whatever their state, and a pool with `slots` free."""
    return msgspec.structs.replace(world.pool(*world.index), pool=PoolView(name="default_pool", open=slots))
