"""Limits the events of a run: the oldest event of each input of the condition, and of the others the oldest.

So the run has every input that the condition had, and events of an input are consumed in the order of arrival.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from tidegate.handlers.scheduling.condition import Satisfied
from tidegate.schemas.view import DagView, PendingEvent


class LimitedRun(NamedTuple):
    """The events of a run, and how many stay pending because of its limit or because they were not read."""

    satisfied: Satisfied
    left: int


def limit_events(dag: DagView, satisfied: Satisfied) -> LimitedRun:
    """At most `run_events` events, unless the condition has more inputs."""
    events = satisfied.events
    if dag.graph.one_run_per_event or (len(events) <= dag.run_events and not dag.more_pending):
        return LimitedRun(satisfied, 0)
    if len(events) > dag.run_events:
        satisfied = msgspec.structs.replace(satisfied, events=_oldest(dag, events))
    left = len(dag.pending) + dag.more_pending - len(satisfied.events) - len(satisfied.superseded)
    return LimitedRun(satisfied, left)


def _oldest(dag: DagView, events: Sequence[PendingEvent]) -> tuple[PendingEvent, ...]:
    leaves: Mapping[int, Sequence[Hashable]] = {input_.event.dataset_event_id: input_.leaves for input_ in dag.inputs or ()}
    ordered = sorted(events, key=lambda event: event.dataset_event_id)
    first: dict[Hashable, int] = {}
    for event in ordered:
        for leaf in leaves.get(event.dataset_event_id, (event.uri,)):
            first.setdefault(leaf, event.dataset_event_id)
    needed = set(first.values())
    others = [event.dataset_event_id for event in ordered if event.dataset_event_id not in needed]
    taken = needed.union(others[: max(dag.run_events - len(needed), 0)])
    return tuple(event for event in ordered if event.dataset_event_id in taken)
