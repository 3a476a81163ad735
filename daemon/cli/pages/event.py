"""Cells of tables with dataset events."""

from collections.abc import Mapping
from typing import Any

from tidegate.daemon.cli.pages import output
from tidegate.daemon.read_model.event import own_extra
from tidegate.schemas.wire.event import Producer


def producer_text(producer: Producer | None) -> str | None:
    """`daily scheduled__2013-01-01 load[3]`: the DAG, the run and the task that produced an event."""
    return None if producer is None else f"{producer.dag_id} {producer.run_id} {producer.label}"


def extra_text(extra: Mapping[str, Any] | None) -> str:
    """The extra of an event without its producer, which has a column of its own."""
    return "too large" if extra is None else output.compact(own_extra(extra))
