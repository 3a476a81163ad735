"""Ticks that make no run because a later one does: without catchup only the latest of several does that were due meanwhile."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from tidegate.schemas.effect.dag import NoteSchedule
from tidegate.schemas.graph import bounds_of
from tidegate.schemas.text import utc
from tidegate.schemas.timetable.tick import Tick, ticks_before
from tidegate.schemas.view import DagView

MOST = 100
"""The most ticks that one note counts."""

RULES = {
    "latest": "without catchup only the latest tick that is due makes one",
    "skip": "with missed='skip' only a tick less than a minute old makes one",
}


def note_missed(dag: DagView, tick: Tick, now: datetime) -> Iterator[NoteSchedule]:
    """A note about the ticks between the last decided one and `tick`, if there are any without a run."""
    if dag.last_tick is None or dag.graph.bounds.missed == "all":
        return
    bounds = bounds_of(dag.graph, dag.timed_since or now)
    passed = ticks_before(dag.graph.timetable, dag.last_tick, tick, bounds, now, MOST + 1)
    if missed := [each for each in passed if each.logical_date not in dag.run_dates]:
        yield NoteSchedule(dag.graph.dag_id, "tick_missed", f"{_which(missed)} made no run: {_why(dag)}", now)


def _which(missed: Sequence[Tick]) -> str:
    first, last = utc(missed[0].run_after), utc(missed[-1].run_after)
    if len(missed) == 1:
        return f"the tick of {first}"
    return f"more than {MOST} ticks from {first} on" if len(missed) > MOST else f"{len(missed)} ticks from {first} to {last}"


def _why(dag: DagView) -> str:
    rule = RULES[dag.graph.bounds.missed]
    if dag.was_full:
        return f"max_active_runs is {dag.graph.max_active_runs}, and {rule}"
    return f"no run could start then, and {rule}"
