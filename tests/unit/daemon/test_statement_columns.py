"""Effects are arguments of their statements by position: each statement names its columns in the order of the fields."""

import re
from collections.abc import Sequence

import pytest

from tidegate.daemon.perform import PERFORM, Statement
from tidegate.daemon.work import WORK, Work
from tidegate.schemas.backfill import Limits
from tidegate.schemas.queries import backfills, submissions
from tidegate.schemas.queries.db import columns, paths
from tidegate.schemas.queries.sql import named

STATEMENTS = {how.name: (types, how) for types, how in PERFORM if isinstance(how, Statement)}
CHOSEN = {
    "backfills.insert": backfills.INSERTED,
    "backfills.update": ("id", "end_date", "horizon", *backfills.UPDATED, "stages", "due_at"),
    "backfills.set_limits": ("id", *Limits.__struct_fields__),
    "submissions.end_submissions": submissions.ENDED,
}
"""The fields that a function chooses."""

OTHERWISE_NAMED = {"pools.count_admitted": {"name": "pool"}, "runs.reconsider_after": {"id": "dag_run_id"}}
_OF_ROWS = re.compile(r"unnest\([^)]*\)\s+(?:WITH ORDINALITY )?AS \w+ \(([^)]*)\)")
_INSERTED = re.compile(r"INSERT INTO \w+(?: AS \w+)? \(([^)]*)\)")
_ONE = re.compile(r"WHERE (\w+) = ANY \(\$1")


def fields(name: str) -> Sequence[str]:
    types, _ = STATEMENTS[name]
    return CHOSEN.get(name) or [path.rpartition(".")[2] for path in paths(types[0])]


def columns_of(name: str) -> list[str]:
    """The columns that the rows of the arguments have in the statement, by the names of the fields."""
    text = named(name)
    found = _OF_ROWS.search(text) or _INSERTED.search(text) or _ONE.search(text)
    assert found is not None, text
    renamed = {"task_index": "index", **OTHERWISE_NAMED.get(name, {})}
    return [renamed.get(column, column) for column in re.split(r",\s*", found[1].strip())]


@pytest.mark.parametrize("name", [name for name, (_, how) in STATEMENTS.items() if how.columns is columns or name in CHOSEN])
def test_a_statement_names_its_columns_in_the_order_of_the_fields(name: str) -> None:
    wanted = [field.replace("task_index", "index") for field in fields(name)]

    assert columns_of(name)[: len(wanted)] == wanted


def test_what_goes_to_the_outbox_wakes_the_relay() -> None:
    types, _ = STATEMENTS["outbox.insert_outbox"]

    assert {WORK[type_] for type_ in types} == {Work.RELAY}
