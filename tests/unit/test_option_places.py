"""Each option that a DAG file may give is in the pages for users, and in the DAG files that the fuzz tests draw."""

import re

import pytest

from tests.authoring_options import options_of_dags, options_of_tasks
from tests.documents import ROOT
from tests.fuzz.dag_source import DAG_OPTIONS, OF_KINDS, OPTIONS

POSITIONAL = {"dag_id", "task_id", "application", "argv", "sql"}
ALWAYS_DRAWN = {"schedule", "args", "conf"}


@pytest.mark.parametrize("option", sorted((options_of_dags() | options_of_tasks()) - POSITIONAL))
def test_the_page_on_dags_has_the_option(option: str) -> None:
    page = (ROOT / "schemas/docs/writing-dags.md").read_text()

    assert re.search(rf"`{option}`|[`( ]{option}=", page)


def test_the_fuzz_tests_draw_every_option() -> None:
    assert options_of_dags() - POSITIONAL - ALWAYS_DRAWN == DAG_OPTIONS.keys()
    assert options_of_tasks() - POSITIONAL - ALWAYS_DRAWN == OPTIONS.keys() | {
        name for kind in OF_KINDS.values() for name in kind
    }
