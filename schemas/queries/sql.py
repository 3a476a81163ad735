"""Read the named blocks of a `.sql` file: `-- name: claim_runs`, then the statement; and combine statements.

In a statement, `{run.RunView}` stands for the columns of `run` that are the fields of that view, with times that Python can read.
`{held dag_run_id}` stands for whether the view `held_run` has the run of that id. It takes two lookups by key, whatever Postgres
knows of the tables; an anti-join with the view may compare each row with all of its runs. `{held_row run}` stands for the same of
a row of `dag_run` that is at hand.
"""

import re
from datetime import datetime
from functools import cache, lru_cache
from importlib.resources import files
from itertools import accumulate
from typing import get_args, get_type_hints

from tidegate.schemas import backfill, view

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_COLUMNS = re.compile(r"\{(\w+)\.(\w+)\}")
_HELD = re.compile(r"\{held ([\w.]+)\}")
_IS_HELD = r"""(
    SELECT held_since FROM dag
    WHERE dag_id = (SELECT it.dag_id FROM dag_run AS it WHERE it.id = \1 AND it.state::text IN ('queued', 'running'))
) IS NOT NULL"""
_HELD_ROW = re.compile(r"\{held_row (\w+)\}")
_ROW_IS_HELD = r"""(
    \1.state IN ('queued', 'running') AND (SELECT held_since FROM dag WHERE dag.dag_id = \1.dag_id) IS NOT NULL
)"""
_WRITES = re.compile(r"(?:--[^\n]*\n)*(?:INSERT INTO|UPDATE|DELETE FROM) (\w+)")
_PARAMETER = re.compile(r"\$(\d+)")


@cache
def load(topic: str) -> dict[str, str]:
    """The blocks of `<topic>.sql` by name."""
    text = files(__package__).joinpath(f"{topic}.sql").read_text()
    _, *parts = _NAME.split(_HELD_ROW.sub(_ROW_IS_HELD, _HELD.sub(_IS_HELD, _COLUMNS.sub(_columns, text))))
    return dict(zip(parts[::2], map(str.strip, parts[1::2]), strict=True))


def named(statement: str) -> str:
    """The block `topic.name`."""
    topic, _, name = statement.partition(".")
    return load(topic)[name]


@cache
def written(statement: str) -> str:
    """The table that a statement of one INSERT, UPDATE or DELETE writes."""
    found = _WRITES.match(statement)
    if found is None:
        raise ValueError(f"it begins with no INSERT, UPDATE or DELETE: {statement}")
    return found[1]


def _columns(found: re.Match[str]) -> str:
    table, name = found.groups()
    type_ = getattr(view, name, None) or getattr(backfill, name)
    types = get_type_hints(type_)
    return ", ".join(_column(table, field, types[field]) for field in type_.__struct_fields__)


def _column(table: str, field: str, type_: object) -> str:
    is_time = datetime in (type_, *get_args(type_))
    return f"in_calendar({table}.{field}) AS {field}" if is_time else f"{table}.{field}"


@lru_cache(maxsize=1000)
def combined(statements: tuple[str, ...], arguments: tuple[int, ...]) -> str:
    """One statement that executes all statements. `arguments` has the number of arguments of each; those are concatenated.

    A part does not see the writes of another one, so it must not read or write the same rows.
    """
    *first, last = map(_numbered, statements, accumulate((0, *arguments)))
    parts = ",\n".join(f"part_{number} AS (\n{statement}\n)" for number, statement in enumerate(first))
    return f"WITH {parts}\n{last}" if first else last


def _numbered(statement: str, after: int) -> str:
    return _PARAMETER.sub(lambda found: f"${int(found[1]) + after}", statement) if after else statement
