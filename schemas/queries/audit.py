"""The audit of the ledger: every event has exactly one state for each DAG that was subscribed when it arrived.

`dataset_event_arrival` has the snapshot in which a batch read the subscriptions, `dataset_subscription` the transactions that
began and ended each subscription; their comparison needs no clock. Transaction ids belong to one cluster: a physical copy keeps
them; after a logical restore the audit has no basis.

Events are read in pages, each from one snapshot, so that daemons continue to work.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.sql import load

_SQL = load("audit")

ROWS_AT_ONCE = 5_000

NO_OUTCOME = "it is neither pending nor consumed nor discarded"


class EventPage(NamedTuple):
    """The number of events in a page, of which `last` is the last id. `unproven` are older than the record of subscriptions."""

    last: int
    events: int
    unproven: int


class Outcome(NamedTuple):
    """`pending`, `consumed alone`, `consumed with others`, or `discarded` with the reason."""

    outcome: str
    reason: str | None


class Problem(NamedTuple):
    """A wrong or missing outcome. `what` is a sentence."""

    dag_id: str
    dataset_event_id: int
    what: str


class EventName(msgspec.Struct, frozen=True):
    """The identity that producers gave an event; None where it is unknown."""

    id: int
    uri: str | None
    source: str | None
    event_id: str | None


class OutcomeKey(NamedTuple):
    """The key of a row in a table of outcomes. Only the pending queue has a dataset in its key; elsewhere `dataset_id` is 0."""

    dag_id: str
    dataset_id: int
    dataset_event_id: int


START = OutcomeKey("", 0, 0)
"""A key before all rows."""

TABLES = ("pending", "consumed", "discarded")
"""The tables of outcomes."""


class CheckedOutcomes(NamedTuple):
    """The problems of a page of outcomes, and the key of its last row; None if there are no more rows."""

    problems: list[Problem]
    end: OutcomeKey | None


async def page_after(db: Db, last: int, most: int) -> EventPage | None:
    """The next page of events; None at the end of the ledger."""
    (row,) = await db.fetch(_SQL["page_of_events"], last, most)
    return EventPage(*row) if row[1] else None


async def outcomes(db: Db, after: int, last: int) -> tuple[Mapping[Outcome, int], list[Problem]]:
    """The number of outcomes of each kind, and a problem for each DAG and event without an outcome."""
    counts: dict[Outcome, int] = {}
    lost: list[Problem] = []
    for outcome, reason, dag_id, id_, count in await db.fetch(_SQL["count_outcomes"], after, last):
        if outcome is None:
            lost.append(Problem(dag_id, id_, NO_OUTCOME))
        else:
            counts[Outcome(outcome, reason)] = count
    return counts, lost


async def check(db: Db, table: str, begin: OutcomeKey) -> CheckedOutcomes:
    """Check the next rows of a table of outcomes, after the key `begin`."""
    rows = await db.fetch(_SQL["check_outcomes"], table, *begin, ROWS_AT_ONCE)
    problems = [
        Problem(dag_id, id_, SENTENCES[problem].format(outcome=outcome, second=second))
        for dag_id, _, id_, problem, outcome, second in rows
        if problem is not None
    ]
    return CheckedOutcomes(problems, OutcomeKey(*rows[-1][:3]) if rows else None)


async def names(db: Db, ids: Sequence[int]) -> Mapping[int, EventName]:
    """The identities of the events that are in the ledger, by id."""
    return {row[0]: EventName(*row) for row in await db.fetch(_SQL["name_events"], ids)}


SENTENCES: Mapping[str, str] = {
    "no_event": "it is {outcome}, but it is not in the ledger",
    "no_dag": "it is {outcome}, but there is no such DAG",
    "no_run": "it is {outcome}, which is not there",
    "no_reason": "it is discarded without a reason",
    "other_run": "it is {outcome}, which is one of {second}",
    "other_dataset": "it is {outcome} as an event of another dataset",
    "doubled": "it is {outcome}, and it is {second}",
    "not_subscribed": "it is {outcome}, but the DAG did not wait for its dataset when it came",
}
