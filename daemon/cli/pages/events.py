"""The page of `datasets events`: one row for each event and DAG."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from tidegate.daemon.cli.pages import output
from tidegate.schemas.queries.dataset_history import EventRow, OutcomeRow

TITLES = ("EVENT", "OCCURRED", "SOURCE", "ID", "EXTRA", "DAG", "OUTCOME", "RUN OR REASON")


class EventOutcomes(msgspec.Struct, frozen=True):
    """An event, and its outcome for each DAG that was subscribed to its dataset."""

    event: EventRow
    outcomes: Sequence[OutcomeRow]


def print_events(events: Iterable[EventOutcomes]) -> None:
    output.table(TITLES, (row for event in events for row in _rows(event)), empty="there are no such events")


def _rows(event_outcomes: EventOutcomes) -> Iterator[Sequence[output.Cell]]:
    event = event_outcomes.event
    cells = (event.number, event.occurred_at, event.source, event.id, output.compact(event.extra))
    for outcome in event_outcomes.outcomes:
        yield (*cells, outcome.dag_id, outcome.outcome, outcome.run_id or outcome.reason)
    if not event_outcomes.outcomes:
        yield (*cells, None, "no DAG", None)
