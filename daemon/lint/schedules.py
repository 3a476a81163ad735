"""Schedules that can be parsed, and that do something else than their author seems to mean."""

import ast
from collections import Counter
from collections.abc import Collection, Iterator
from datetime import datetime

from tidegate.daemon.lint.finding import Mistake
from tidegate.daemon.lint.tasks import templates
from tidegate.daemon.read_model.condition import leaf_text
from tidegate.schemas.conditions.condition import AllOf, AnyOf, Condition, DatasetRef, NOf, PatternRef, inputs
from tidegate.schemas.dag import DagSpec
from tidegate.schemas.graph import graph_of
from tidegate.schemas.text import utc
from tidegate.schemas.timetable.spec import Continuous, Once, describe
from tidegate.schemas.timetable.tick import INSTANT, runs_after

MANY_MISSED = 100
MOST_MISSED = 10_000
"""Missed runs are counted up to here."""

EXTRA = "extra"


def doubtful_schedule(spec: DagSpec, now: datetime) -> Iterator[Mistake]:
    """A timetable that never comes or has come very often, and a condition that counts an input twice."""
    if spec.timetable is not None and not isinstance(spec.timetable, Once | Continuous):
        if next(runs_after(spec.timetable, now, graph_of(0, spec).bounds), None) is None:
            reason = f"its schedule, {describe(spec.timetable)}, has no time after {utc(now)}"
            yield Mistake(spec.dag_id, f"{reason}, so it makes no run")
        if (missed := missed_runs(spec, now)) > MANY_MISSED and not spec.paused:
            counted = f"{missed:,}" if missed <= MOST_MISSED else f"more than {MOST_MISSED:,}"
            reason = (
                f"catchup makes {counted} runs at once when the DAG is first deployed, one for each time since its start_date"
            )
            yield Mistake(spec.dag_id, f"{reason}; write paused=True to deploy it paused, or a later start_date")
    if spec.schedule is not None:
        for leaf, times in _counted_again(spec.schedule):
            yield Mistake(spec.dag_id, f"n_of counts {leaf} {times} times, and one event of it counts as {times}")


def missed_runs(spec: DagSpec, now: datetime) -> int:
    """The runs that a new DAG makes of times before `now`; at most one more than `MOST_MISSED`."""
    if spec.missed != "all" or spec.start_date is None:
        return 0
    found = 0
    for tick in runs_after(spec.timetable, spec.start_date - INSTANT, graph_of(0, spec).bounds):
        if tick.run_after > now or found > MOST_MISSED:
            break
        found += 1
    return found


def mixed_inputs(spec: DagSpec, functions: Collection[ast.FunctionDef]) -> Iterator[Mistake]:
    """Joined inputs whose events say in `extra` what they are about, which no part of the condition compares.

    `functions` are those of the tasks, as far as the file shows them.
    """
    if spec.schedule is None or spec.timing.within_s or not _joins(spec.schedule):
        return
    reads = (EXTRA in text for task in spec.tasks for _, text in templates(task))
    if any(reads) or any(_reads_extra(function) for function in functions):
        joined = " & ".join(leaf_text(leaf) for leaf in inputs(spec.schedule))
        reason = f"the schedule joins {joined} by arrival, and tasks read their extra: a run may have events of different days"
        yield Mistake(spec.dag_id, f"{reason}; let the first task compare them, or write Timed(…, within=…)")


def _joins(condition: Condition) -> bool:
    """Whether it waits for several inputs at once."""
    match condition:
        case AllOf(of) if len(of) > 1:
            return True
        case NOf(k, _) if k > 1:
            return True
        case AllOf(of) | AnyOf(of) | NOf(_, of):
            return any(map(_joins, of))
        case _:
            return False


def _reads_extra(function: ast.FunctionDef) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr == EXTRA for node in ast.walk(function))


def _counted_again(condition: Condition) -> Iterator[tuple[str, int]]:
    match condition:
        case NOf(_, of):
            counted = Counter(of)
            yield from ((" & ".join(map(leaf_text, inputs(each))), times) for each, times in counted.items() if times > 1)
            for operand in counted:
                yield from _counted_again(operand)
        case AllOf(of) | AnyOf(of):
            for operand in of:
                yield from _counted_again(operand)
        case DatasetRef() | PatternRef():
            pass
