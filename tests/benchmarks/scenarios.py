"""All scenarios by their letters."""

from collections.abc import Awaitable, Callable, Mapping

from tests.benchmarks.event_scenarios import a, b, d
from tests.benchmarks.figures import Figure
from tests.benchmarks.history_scenarios import k
from tests.benchmarks.task_scenarios import e, e2, w
from tests.benchmarks.time_scenarios import h

SCENARIOS: Mapping[str, Callable[[int], Awaitable[list[Figure]]]] = {
    "A": a,
    "B": b,
    "D": d,
    "E": e,
    "E2": e2,
    "H": h,
    "K": k,
    "W": w,
}
