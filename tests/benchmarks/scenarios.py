"""All scenarios by their letters."""

from collections.abc import Awaitable, Callable, Mapping

from tests.benchmarks.backfill_scenarios import l
from tests.benchmarks.event_scenarios import a, a2, b, c, d
from tests.benchmarks.figures import Figure
from tests.benchmarks.file_scenarios import f, f2
from tests.benchmarks.held_scenarios import j
from tests.benchmarks.history_scenarios import k
from tests.benchmarks.live_scenarios import w2
from tests.benchmarks.page_scenarios import w1
from tests.benchmarks.pending_scenarios import p
from tests.benchmarks.recovery_scenarios import m
from tests.benchmarks.scale_scenarios import n
from tests.benchmarks.task_scenarios import e, e2, w
from tests.benchmarks.time_scenarios import h

Scenario = Callable[[int], Awaitable[list[Figure]]]
"""Measures the given number of times, after once to warm up."""

SCENARIOS: Mapping[str, Scenario] = {
    "A": a,
    "A2": a2,
    "B": b,
    "C": c,
    "D": d,
    "E": e,
    "E2": e2,
    "F": f,
    "F2": f2,
    "H": h,
    "J": j,
    "K": k,
    "L": l,
    "M": m,
    "N": n,
    "P": p,
    "W": w,
    "W1": w1,
    "W2": w2,
}
