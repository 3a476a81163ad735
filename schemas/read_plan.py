"""How much of a locked DAG's queued runs and pending events a decision reads: planned by a handler, executed by a query."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from tidegate.schemas.conditions.condition import Condition


class EventKey(NamedTuple):
    """A pending event of a DAG."""

    dataset_id: int
    dataset_event_id: int


class EventPlan(msgspec.Struct, frozen=True):
    """Which pending events are read, and locked.

    `only_if_met`: none, unless the datasets with pending events meet this condition. `with_details`: also the arrival time and
    the extra of each. `limit`: the first so many; None: all.
    """

    only_if_met: Condition | None = None
    with_details: bool = False
    limit: int | None = None


class ReadPlan(msgspec.Struct, frozen=True):
    """What is read of one DAG, and how many run ids are reserved.

    `queued_runs`: enough queued runs to fill so many slots. `timed_runs`: run ids for the timetable; with any, the logical dates
    that have a run are read. `events` None: no pending event is read. `event_runs`: the most runs that the events make.
    `just_arrived` is read of a DAG whose other events are not.
    """

    queued_runs: int = 0
    timed_runs: int = 0
    events: EventPlan | None = None
    event_runs: int = 1
    just_arrived: Sequence[EventKey] = ()
