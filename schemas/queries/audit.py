"""The audit of the ledger: whether every event has exactly one state for each DAG that was subscribed when it arrived.

`dataset_event_arrival` has the snapshot in which a batch read the subscriptions, `dataset_subscription` the transactions that
began and ended each of them; comparing the two needs no clock. Transaction ids belong to one cluster: a physical copy keeps them,
after a logical restore the audit has no basis.

Events are read in pages, each from one snapshot, so that daemons continue to work.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.sql import load

_SQL = load("audit")

ROWS_AT_ONCE = 5_000

NO_FATE = "it is neither pending nor consumed nor discarded"


class Page(NamedTuple):
    """Some events of the ledger, up to the one with id `last`. `unproven` came before subscriptions were recorded."""

    last: int
    events: int
    unproven: int


class Fate(NamedTuple):
    """`pending`, `consumed alone`, `consumed with others`, or `discarded` with the reason."""

    fate: str
    reason: str | None


class Problem(NamedTuple):
    """What is wrong with a fate, or with the lack of one."""

    dag_id: str
    dataset_event_id: int
    what: str


class EventName(msgspec.Struct, frozen=True):
    """What producers know an event by, as far as it is known."""

    id: int
    uri: str | None
    source: str | None
    event_id: str | None


class Side(NamedTuple):
    """A table of fates, walked by its key from `begin` on. The columns of its rows that follow the key are `Found`."""

    statement: str
    begin: tuple[str | int, ...]


class Found(NamedTuple):
    """The fate that a row is, a `second` one, and what is wrong."""

    problem: str | None
    fate: str
    second: str | None


SIDES: Sequence[Side] = (
    Side(_SQL["check_pending"], ("", 0, 0)),
    Side(_SQL["check_consumed"], ("", 0)),
    Side(_SQL["check_discarded"], ("", 0)),
)


class Checked(NamedTuple):
    """What is wrong with some fates, and where to go on; None: those were the last."""

    problems: list[Problem]
    end: tuple[str | int, ...] | None


async def page_after(db: Db, last: int, most: int) -> Page | None:
    """The next events; None where there are none."""
    (row,) = await db.fetch(_SQL["page_of_events"], last, most)
    return Page(*row) if row[1] else None


async def fates(db: Db, after: int, last: int) -> tuple[Mapping[Fate, int], list[Problem]]:
    """How many fates of each sort these events have, and those (DAG, event) that have none."""
    counts: dict[Fate, int] = {}
    lost: list[Problem] = []
    for fate, reason, dag_id, id_, count in await db.fetch(_SQL["count_fates"], after, last):
        if fate is None:
            lost.append(Problem(dag_id, id_, NO_FATE))
        else:
            counts[Fate(fate, reason)] = count
    return counts, lost


async def check(db: Db, side: Side, begin: tuple[str | int, ...]) -> Checked:
    """Look at the fates after that key."""
    rows = await db.fetch(side.statement, *begin, ROWS_AT_ONCE)
    if not rows:
        return Checked([], None)
    width = len(begin)
    problems = [
        Problem(row[0], row[width - 1], _said(found)) for row in rows if (found := Found(*row[width:])).problem is not None
    ]
    return Checked(problems, tuple(rows[-1])[:width])


async def names(db: Db, ids: Sequence[int]) -> Mapping[int, EventName]:
    """Those of these events that are in the ledger."""
    return {row[0]: EventName(*row) for row in await db.fetch(_SQL["name_events"], ids)}


def _said(found: Found) -> str:
    return SENTENCES[found.problem or ""].format(fate=found.fate, second=found.second)


SENTENCES: Mapping[str, str] = {
    "no_event": "it is {fate}, but it is not in the ledger",
    "no_dag": "it is {fate}, but there is no such DAG",
    "no_run": "it is {fate}, which is not there",
    "no_reason": "it is discarded without a reason",
    "other_run": "it is {fate}, which is one of {second}",
    "other_dataset": "it is {fate} as an event of another dataset",
    "doubled": "it is {fate}, and it is {second}",
    "not_subscribed": "it is {fate}, but the DAG did not wait for its dataset when it came",
}
