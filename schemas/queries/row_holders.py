"""Sessions that hold rows for long, such as a console that ran `SELECT … FOR UPDATE` and did not end its transaction."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.sql import load
from tidegate.schemas.text import utc

_SQL = load("row_holders")

LONG_S, OWN_LONG_S = 2.0, 20.0
"""Transactions of ours end within 15 s."""

MAX_DAGS = 5


class RowHolder(msgspec.Struct, frozen=True):
    """A session with its transaction, since when it is open, and when its last query began; None: the role may not see that.

    `tables` have rows that it holds, `dags` are the first of the DAGs among them. `pid` 0: a prepared transaction.
    """

    pid: int
    role: str
    application: str
    address: str
    since: datetime | None
    query_since: datetime | None
    tables: Sequence[str]
    dags: Sequence[str]
    xids: Sequence[str] = ()

    @property
    def text(self) -> str:
        """`pid 42 (user ada, application psql, from 10.0.0.7), in a transaction since …, its last query began at …`."""
        names = (("user", self.role), ("application", self.application), ("from", self.address))
        facts = ", ".join(f"{name} {value}" for name, value in names if value)
        began = f", its last query began at {utc(self.query_since)}" if self.query_since else ""
        since = f" since {utc(self.since)}" if self.since else ""
        return f"{f'pid {self.pid}' if self.pid else 'no session'} ({facts}), in a transaction{since}{began}"


class HeldRow(msgspec.Struct, frozen=True):
    """A row of a DAG, and the session that holds it."""

    what: str
    holder: RowHolder


async def sessions(db: Db) -> list[RowHolder]:
    """The sessions that hold rows of Tidegate for long, the oldest transaction first."""
    return [RowHolder(*row) for row in await db.fetch(_SQL["sessions"], LONG_S, OWN_LONG_S, MAX_DAGS)]


async def of_dag(db: Db, dag_id: str) -> HeldRow | None:
    """The row of a DAG, or of an unfinished run of it, that a session holds for long."""
    holders = {xid: holder for holder in await sessions(db) for xid in holder.xids}
    rows = await db.fetch(_SQL["of_dag"], dag_id, holders.keys()) if holders else ()
    return next((HeldRow(what, holders[xid]) for what, xid in rows), None)
