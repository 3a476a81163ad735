"""How much of a locked DAG's queued runs and pending events a decision reads: planned by a handler, executed by a query."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from tidegate.schemas.conditions.condition import Condition

RUN_EVENTS = 1000
"""The most events that a run consumes, by default."""

READ_BYTES = 16 << 20
"""The most extra, in bytes of JSON, that the events of a run have, if its DAG inspects events."""

MAX_READ_EVENTS = 100_000
"""The most pending events over which a condition is evaluated."""

MAX_READ_BYTES = 128 << 20


MAX_RUN_DATES = 1000
"""The most logical dates with a run that are read of a DAG with a timetable: a backfill may have made any number."""


class EventKey(NamedTuple):
    """A pending event of a DAG."""

    dataset_id: int
    dataset_event_id: int


class EventPlan(msgspec.Struct, frozen=True):
    """The pending events that are read: the oldest ones, at most `limit`.

    `only_if_met`: none are read unless the datasets with pending events meet this condition. `with_details`: their extra is
    read, too, and only as many events as have `max_bytes` of it. `of_each`: the oldest event of each dataset is read,
    whatever the limit. `with_rest`: the events that the limits leave are counted.
    """

    only_if_met: Condition | None = None
    with_details: bool = False
    limit: int = RUN_EVENTS
    max_bytes: int = READ_BYTES
    of_each: bool = False
    with_rest: bool = True


class ReadPlan(msgspec.Struct, frozen=True):
    """The rows to read of one DAG, and the run ids to reserve.

    `queued_runs`: the most queued runs. `timed_runs`: the number of run ids for the timetable; if any, the first logical dates
    with a run are read, from `dates_since` or the last tick on. `events` None: no pending events are read. `event_runs`: the most
    runs of the events. `just_arrived`: the events to read of a DAG whose other events are not read.
    """

    queued_runs: int = 0
    timed_runs: int = 0
    dates_since: datetime | None = None
    events: EventPlan | None = None
    event_runs: int = 1
    just_arrived: Sequence[EventKey] = ()
