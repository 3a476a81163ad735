"""What the lists of the API and of the pages share: their parameters, and cursors that name their list and its filters."""

from collections.abc import Sequence
from datetime import datetime
from hashlib import sha256
from operator import attrgetter
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec
from msgspec import Meta

from tidegate.daemon.gateway import cursor
from tidegate.daemon.gateway.cursor import Page
from tidegate.daemon.gateway.endpoint import Params
from tidegate.daemon.gateway.problem import InvalidError
from tidegate.schemas.time_range import EARLIEST, LATEST

Row = TypeVar("Row")

Limit = Annotated[int, Meta(ge=1, le=500, description="The most rows of the answer.")]
Id = Annotated[int, Meta(ge=1, le=2**63 - 1)]
Time = Annotated[datetime, Meta(tz=True)]
"""A time with its offset."""

DagId = Annotated[str, Meta(description="The id of the DAG.")]
RunId = Annotated[str, Meta(description="The id of the run, or `latest` for the newest one of the DAG.")]

Year = Annotated[int, Meta(ge=EARLIEST.year, le=LATEST.year)]
Cursor = Annotated[str | None, Meta(description="The `next_cursor` of the answer before; the filters stay the same.")]


class Listed(Params, frozen=True):
    """A page of a list: the rows after those of an earlier page, which gave the cursor."""

    cursor: Cursor = None
    limit: Limit = 50

    @property
    def is_filtered(self) -> bool:
        """Whether rows of the list may be left out: by a filter, or because they come before the cursor."""
        chosen = {
            field.name: (getattr(self, field.name), field.default) for field in msgspec.structs.fields(self) if not field.required
        }
        return any(value and value != default for name, (value, default) in chosen.items() if name != "limit")


PLACE = frozenset(Listed.__struct_fields__)
"""The parameters that choose a page of the list, and none of its rows."""


class ListedOfDag(Listed, frozen=True):
    """A page of a list of all DAGs, or of one."""

    dag_id: Annotated[str | None, Meta(description="Only of this DAG.")] = None


class Keyset(NamedTuple):
    """The key of a list's rows: their fields, and the types of these."""

    name: str
    fields: Sequence[str]
    types: Sequence[Any]

    def key(self, text: str | None, filters: str = "") -> tuple[Any, ...] | None:
        """The key in a cursor; None without one. Raises InvalidError for a cursor of another list, or of other filters."""
        if not text:
            return None
        name, filtered_by, *key = cursor.decode(text, tuple.__class_getitem__((str, str, *self.types)))
        if (name, filtered_by) != (self.name, filters) or not all(map(_is_storable, key)):
            raise InvalidError(cursor.NOT_OURS)
        return tuple(key)

    def cursor(self, row: Any, filters: str = "") -> str:
        """The cursor for the rows after this one."""
        return cursor.encode(self.name, filters, *(attrgetter(field)(row) for field in self.fields))

    def position(self, wanted: Listed) -> tuple[Any, ...] | None:
        """The key of the last row of the earlier page; None: from the first row on. Raises InvalidError."""
        return self.key(wanted.cursor, filters_of(wanted))

    def first(self, wanted: Listed) -> Any:
        """As `position`, of a key of one field."""
        found = self.position(wanted)
        return None if found is None else found[0]

    def page(self, rows: Sequence[Row], wanted: Listed) -> Page[Row]:
        """The page of the rows, which are one more than its limit if others follow."""
        shown = list(rows[: wanted.limit])
        return Page(shown, self.cursor(shown[-1], filters_of(wanted)) if len(rows) > wanted.limit else None)


def filters_of(wanted: Listed) -> str:
    """A text that differs where the rows do that a list has; an empty filter is none."""
    filters = {name: value for name, value in msgspec.structs.asdict(wanted).items() if value and name not in PLACE}
    return sha256(msgspec.json.encode(filters)).hexdigest()[:16]


def _is_storable(value: Any) -> bool:
    return not isinstance(value, datetime) or EARLIEST <= value <= LATEST


def newest_first(name: str) -> Keyset:
    """The key of a list by descending `id`."""
    return Keyset(name, ("id",), (Id,))
