"""What needs attention now."""

from datetime import UTC, datetime
from typing import Any

import pytest

from tidegate.daemon.read_model.late import LateDatasets
from tidegate.daemon.read_model.now import LISTED, NowPage
from tidegate.schemas.queries.dag_pages import ImportErrorRow
from tidegate.schemas.queries.now import Counts

NOW = datetime(2013, 1, 1, tzinfo=UTC)


def page(broken: int, dead_letters: int = 0, counts: Counts = Counts(active=0, waiting=0)) -> NowPage:  # noqa: B008 - frozen
    nothing: dict[str, Any] = dict.fromkeys(NowPage.__struct_fields__, ())
    errors = [ImportErrorRow(f"{number}.py", 1, "it is broken", NOW) for number in range(broken)]
    known = {
        "late": LateDatasets([], has_more=True),
        "missing_pools": {},
        "is_empty": False,
        "counts": counts,
        "dead_letters": dead_letters,
    }
    return NowPage(**{**nothing, **known, "import_errors": errors})


@pytest.mark.parametrize(
    ("found", "problems", "has_more"),
    [
        (page(0), 1, False),
        (page(3, dead_letters=7), 5, False),
        (page(LISTED - 1), LISTED, False),
        (page(LISTED), LISTED + 1, True),
    ],
)
def test_a_full_list_may_have_more_entries(found: NowPage, problems: int, has_more: bool) -> None:
    assert (found.problems, found.has_more_problems) == (problems, has_more)
