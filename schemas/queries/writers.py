"""Transactions that may still insert a row with an id that was given earlier."""

from collections.abc import Set
from typing import NamedTuple

from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.sql import load

_SQL = load("writers")


class Writers(NamedTuple):
    """`last` is the highest id that was given; `open` are the transactions that wrote to the table afterwards.

    A transaction with an id up to `last` is in `open` or has ended. `server` is another text after each start and each crash of
    the server.
    """

    server: str
    last: int
    open: Set[str]


async def of_outbox(db: Db) -> Writers:
    return await _writers(db, _SQL["last_of_outbox"], "outbox")


async def of_events(db: Db) -> Writers:
    """The writers of pending events."""
    return await _writers(db, _SQL["last_of_events"], "dataset_dag_run_queue")


async def _writers(db: Db, last_given: str, table: str) -> Writers:
    """Two statements in this order, as `Writers` requires."""
    ((server, last),) = await db.fetch(last_given)
    return Writers(server, last, {row[0] for row in await db.fetch(_SQL["writers"], table)})
