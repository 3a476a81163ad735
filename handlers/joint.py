"""Ticks of a timetable that make a run only if the condition over datasets holds then."""

from datetime import UTC, datetime

import msgspec

from tidegate.handlers.consume import Step, after_run, sifted, taken, without
from tidegate.handlers.gate import Broken, sure
from tidegate.handlers.inputs import sift
from tidegate.handlers.judge import Apart, Busy, Open, TooSoon, Verdict, Waiting, judge
from tidegate.handlers.start import create
from tidegate.handlers.tick import following, has_room, tick_run_ids, timed_run
from tidegate.schemas.effect import NoteSchedule
from tidegate.schemas.tick import Tick
from tidegate.schemas.view import DagView

MOST_UNMET = 100
"""How many ticks that find the condition unmet are passed over at once."""


def joint_ticks(dag: DagView, tick: Tick | None, now: datetime) -> Step:
    """Runs of those ticks that found the condition met; what the others found is recorded. Then what has expired goes.

    Where it was not read what waits, the clock is to come again at once.
    """
    ids, passed = iter(tick_run_ids(dag)), MOST_UNMET if dag.unread else 0
    while tick is not None and tick.run_after <= now and has_room(dag) and passed < MOST_UNMET:
        verdict = _at_tick(dag, tick)
        if not isinstance(verdict, Open):
            passed += 1
            yield NoteSchedule(dag.graph.dag_id, "tick_unmet", _unmet(tick, verdict), now)
        elif (id_ := next(ids, None)) is not None:
            run = timed_run(id_, dag, tick)
            yield from create(run, {}, dag.graph, now, started=True)
            yield from taken(dag, run, verdict)
            dag = after_run(without(dag, verdict), run, tick.run_after)
        else:
            break
        dag = msgspec.structs.replace(dag, last_tick=tick)
        tick = following(dag, now)
    return (yield from sifted(dag, now))


def _at_tick(dag: DagView, tick: Tick) -> Verdict | Broken:
    """What the tick finds: the events that had arrived by then."""
    at = tick.run_after
    arrived = [event for event in dag.pending if event.arrived_at <= at]
    return sure(lambda: judge(dag.graph, sift(dag.graph, arrived, at).inputs, at, dag.dataset_run_at))


def _unmet(tick: Tick, verdict: Waiting | Apart | Busy | TooSoon | Broken) -> str:
    return f"the tick of {tick.run_after.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC found {_found(verdict)}"


def _found(verdict: Waiting | Apart | Busy | TooSoon | Broken) -> str:
    match verdict:
        case Waiting(missing):
            return f"no event of {', '.join(missing)}"
        case Apart(within_s):
            return f"inputs that did not happen within {within_s:g} s of each other"
        case Busy():
            return "events that still came"
        case TooSoon():
            return "the run before too shortly ago"
        case _:
            return f"a condition that cannot be read: {verdict.reason}"
