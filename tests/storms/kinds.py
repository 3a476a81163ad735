"""The kinds of storms there are, each with its plans and the faults that may be seeded in it."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.storms import plans
from tests.storms.brokers.plans import BROKERS, GREAT_BROKERS
from tests.storms.brokers.storm import BrokersStorm
from tests.storms.checker import Verdict
from tests.storms.clocks.faults import CLOCK_FAULTS
from tests.storms.clocks.plans import CLOCKED, LONG_CLOCKED
from tests.storms.clocks.storm import ClocksStorm
from tests.storms.combined.plans import COMBINED, GREAT_COMBINED
from tests.storms.combined.storm import CombinedStorm
from tests.storms.edits.faults import EDIT_FAULTS
from tests.storms.edits.plans import EDITS, GREAT_EDITS
from tests.storms.edits.storm import EditsPlan, EditsStorm
from tests.storms.failover.storm import FULL as FAILOVER
from tests.storms.failover.storm import FailoverStorm
from tests.storms.hostile.faults import HOSTILE_FAULTS
from tests.storms.hostile.plans import GREAT_HOSTILE, HOSTILE
from tests.storms.hostile.storm import HostilePlan, HostileStorm
from tests.storms.limits import plans as limits
from tests.storms.limits.storm import LimitsPlan, LimitsStorm
from tests.storms.runners import plans as runners
from tests.storms.runners.storm import RunnersPlan, RunnersStorm
from tests.storms.storm import Plan, Storm, seed

KINDS: Mapping[str, str] = {
    "limits": "over pools and limits",
    "brokers": "over three brokers",
    "clocks": "of wrong clocks",
    "edits": "of edited DAG files",
    "hostile": "of hostile inputs",
    "runners": "over several hosts, with real tasks",
    "failover": "in which Postgres fails over, five times",
    "combined": "over three brokers, with failovers of Postgres and wrong clocks",
}

WHOLE: Mapping[str, tuple[Plan, Plan]] = {
    "": (plans.STORM, plans.GREAT),
    "limits": (limits.FULL, limits.FULL),
    "brokers": (BROKERS, GREAT_BROKERS),
    "clocks": (CLOCKED, LONG_CLOCKED),
    "edits": (EDITS, GREAT_EDITS),
    "hostile": (HOSTILE, GREAT_HOSTILE),
    "runners": (runners.RUNNERS, runners.GREAT_RUNNERS),
    "failover": (FAILOVER, FAILOVER),
    "combined": (COMBINED, GREAT_COMBINED),
}
"""As they fit into a test, and great."""

AIMED: Mapping[str, Plan] = {
    **plans.AIMED,
    **limits.AIMED,
    **dict.fromkeys(CLOCK_FAULTS, CLOCKED),
    **dict.fromkeys(EDIT_FAULTS, EDITS),
    **dict.fromkeys(HOSTILE_FAULTS, HOSTILE),
    **runners.AIMED,
}
"""Of each fault a small storm that it does not survive."""


OVER: Mapping[tuple[bool, bool, bool], type[Storm]] = {
    (False, False, False): Storm,
    (True, False, False): BrokersStorm,
    (False, True, False): FailoverStorm,
    (False, False, True): ClocksStorm,
    (True, True, True): CombinedStorm,
}
"""By whether it has strikes at brokers, promotions, and wrong clocks."""


async def ride_out(plan: Plan, home: Path, cache: Path) -> tuple[Verdict, str]:
    """The verdict and the report of a storm with the seed of the environment, or a new one."""
    home.mkdir(exist_ok=True)
    storm = storm_of(plan, home, cache, seed())
    verdict = await storm.run()
    return verdict, storm.report(verdict)


async def ride_out_unbroken(plan: Plan, states: Iterable[str], home: Path, cache: Path) -> None:
    """Nothing is broken, and each of these states is reached: what is rare, in a second storm."""
    missed, report = set(states), ""
    for number in range(3):
        verdict, report = await ride_out(plan, home / str(number), cache)
        assert verdict.broken == set(), report
        missed = {state for state in missed if not verdict.reached[state]}
        if not missed:
            break

    assert missed == set(), report


def storm_of(plan: Plan, home: Path, cache: Path, seed: int) -> Storm:
    match plan:
        case LimitsPlan():
            return LimitsStorm(plan, home, cache, seed)
        case EditsPlan():
            return EditsStorm(plan, home, cache, seed)
        case HostilePlan():
            return HostileStorm(plan, home, cache, seed)
        case RunnersPlan():
            return RunnersStorm(plan, home, cache, seed)
        case _:
            return OVER[bool(plan.strikes), bool(plan.promotions), bool(plan.clocks)](plan, home, cache, seed)
