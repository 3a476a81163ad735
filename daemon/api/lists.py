"""What the lists share: their parameters, and cursors that name their list."""

from collections.abc import Sequence
from datetime import datetime
from operator import attrgetter
from typing import Annotated, Any, NamedTuple, TypeVar

from msgspec import Meta

from tidegate.daemon.gateway import cursor
from tidegate.daemon.gateway.cursor import Page
from tidegate.daemon.gateway.endpoint import Params
from tidegate.daemon.gateway.problem import InvalidError

Row = TypeVar("Row")

Limit = Annotated[int, Meta(ge=1, le=500)]
Id = Annotated[int, Meta(ge=1, le=2**63 - 1)]
Time = Annotated[datetime, Meta(tz=True)]
"""A time with its offset."""


class Listed(Params, frozen=True):
    """A page of a list: the rows after those of an earlier page, which gave the cursor."""

    cursor: str | None = None
    limit: Limit = 50


class ListedOfDag(Listed, frozen=True):
    """A page of a list of all DAGs, or of one."""

    dag_id: str | None = None


class Keyset(NamedTuple):
    """The key of a list's rows: their fields, and the types of these."""

    name: str
    fields: Sequence[str]
    types: Sequence[Any]

    def position(self, wanted: Listed) -> tuple[Any, ...] | None:
        """The key of the last row of the earlier page; None: from the first row on. Raises InvalidError."""
        if wanted.cursor is None:
            return None
        shape: Any = tuple.__class_getitem__((str, *self.types))
        name, *key = cursor.decode(wanted.cursor, shape)
        if name != self.name:
            raise InvalidError(cursor.NOT_OURS)
        return tuple(key)

    def first(self, wanted: Listed) -> Any:
        """As `position`, of a key of one field."""
        found = self.position(wanted)
        return None if found is None else found[0]

    def page(self, rows: Sequence[Row], wanted: Listed) -> Page[Row]:
        """The page of the rows, which are one more than its limit if others follow."""
        return cursor.page(rows, wanted.limit, lambda row: (self.name, *(attrgetter(field)(row) for field in self.fields)))


def newest_first(name: str) -> Keyset:
    """The key of a list by descending `id`."""
    return Keyset(name, ("id",), (Id,))
