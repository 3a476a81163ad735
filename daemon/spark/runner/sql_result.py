"""What the result of a SQL statement says about the outlets of its task.

Spark Connect tells a client no numbers of rows of plain writes. Formats such as Delta Lake return them as the result of the
statement.
"""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from tidegate.daemon.spark.runner.failure_reason import TaskError
from tidegate.schemas.run import Run

PREFIX = "extra."
"""A column of this prefix is a key of the extra: ``SELECT count(*) AS `extra.rows` ``."""

AFFECTED = "num_affected_rows"
"""The number of rows that a statement has written, in the one row that it returns."""


def has_extra(columns: Sequence[str], run: Run) -> bool:
    """Whether the result of a statement is about the outlets of its task. It then has one row."""
    return bool(run.outlets) and (any(map(_is_key, columns)) or _is_count(columns, run))


def add_extra(columns: Sequence[str], rows: Sequence[Sequence[Any]], run: Run) -> None:
    """Give the outlets the values of the only row. Raises TaskError for another number of rows."""
    if len(rows) != 1:
        found = "no row" if not rows else "more than one row"
        raise TaskError(f"the statement returned {found}; with columns named `{PREFIX}…` it has to return one")
    known = dict(zip(columns, map(_plain, rows[0]), strict=True))
    extra = {"rows": known[AFFECTED]} if _is_count(columns, run) else {}
    extra |= {name.removeprefix(PREFIX): value for name, value in known.items() if _is_key(name)}
    for event in run.outlets.values():
        event.extra.update(extra)


def _is_key(column: str) -> bool:
    return column.startswith(PREFIX) and column != PREFIX


def _is_count(columns: Sequence[str], run: Run) -> bool:
    """A statement writes one table, so the number is that of the only outlet; instances of a mapped task share theirs."""
    return AFFECTED in columns and len(run.outlets) == 1 and run.map_index is None


def _plain(value: Any) -> Any:
    """Decimals as the numbers that filters compare."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value
