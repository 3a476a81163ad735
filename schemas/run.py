"""A run as its tasks see it."""

from datetime import datetime
from typing import Any

import msgspec


class ConsumedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A dataset event that a run consumed, as tasks see it in `run.events`."""

    uri: str
    source: str
    id: str
    occurred_at: datetime
    extra: dict[str, Any]


class RunContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a task may know of its run. `params` is the run's conf."""

    dag_id: str
    run_id: str
    run_type: str
    run_after: datetime
    params: dict[str, Any]
    events: tuple[ConsumedEvent, ...] = ()
