"""The writes of one decision, in as few statements as possible."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.sql import combined, written


class UnitOfWork:
    """Combines writes to different tables into one statement, which it executes before a read and at the end.

    `cause` is the kind of the handled message, `author` the id of the daemon, None for other programs, and `writer` the name of
    the daemon or user. `request` is that of the transaction.
    """

    def __init__(self, db: Db, cause: str | None, author: UUID | None, writer: str | None) -> None:
        self.origin = (author, writer, cause, db.now)
        self.request = db.request
        self._db = db
        self._writes: dict[str, tuple[str, Sequence[Any]]] = {}

    async def write(self, sql: str, *args: Any) -> None:
        """Execute a statement later.

        It is one INSERT, UPDATE or DELETE, and reads no table but the one that it writes.
        """
        table = written(sql)
        if table in self._writes:
            await self.flush()
        self._writes[table] = (sql, args)

    async def reader(self) -> Db:
        """The transaction, for other statements. They see all writes up to now."""
        await self.flush()
        return self._db

    async def flush(self) -> None:
        """Execute all writes up to now, with the commit marker unless it was claimed before."""
        if self._writes:
            writes = [*self._db.claim_marker(), *self._writes.values()]
            self._writes = {}
            sql = combined(tuple(sql for sql, _ in writes), tuple(len(args) for _, args in writes))
            await self._db.execute(sql, *(arg for _, args in writes for arg in args))
