"""The bound of fairness is in pages and docstrings as a word."""

import pytest

from tests.documents import ROOT
from tidegate.handlers.admission.select import FAIR_EVERY

SAID_IN = (
    *("schemas/docs/writing-dags.md", "daemon/docs/backfills.md"),
    *("handlers/admission/__init__.py", "handlers/admission/select.py", "handlers/tasks_ready.py"),
)


@pytest.mark.parametrize("path", SAID_IN)
def test_pages_and_docstrings_say_the_number(path: str) -> None:
    assert FAIR_EVERY == 4
    assert "every fourth" in (ROOT / path).read_text().lower()
