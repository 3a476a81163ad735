"""Texts of tasks that are templates, and texts that are not."""

import subprocess
import sys

import pytest

from tests.unit.spark.test_template import SPEC
from tidegate.daemon.spark.runner import rendering, template
from tidegate.schemas.text import is_template

RUNNER = """
import sys
import tidegate.daemon.spark.runner.__main__, tidegate.daemon.spark.runner.attempt
print(*sys.modules)
"""


@pytest.mark.parametrize(
    "text", ["", "SELECT 1", "a\r\nb\rc\n\r\n", "}} %} #}", "{ { x", "x\n", "\n\n", "# x\n## y", "é\0\u2028"]
)
def test_a_text_without_a_mark_is_rendered_as_by_jinja(text: str) -> None:
    assert not is_template(text)
    assert rendering.render(text, SPEC, "the SQL") == template.render(text, SPEC, "the SQL")


@pytest.mark.parametrize("text", ["{{ run_id }}\r\n", "{% if run_id %}x{% endif %}", "x{# y #}"])
def test_a_text_with_a_mark_is_rendered_by_jinja(text: str) -> None:
    assert is_template(text)
    assert rendering.render(text, SPEC, "the SQL") == template.render(text, SPEC, "the SQL") != text


def test_a_runner_imports_neither_jinja_nor_what_dag_files_import() -> None:
    """It starts for each attempt, and most attempts need neither."""
    ended = subprocess.run([sys.executable, "-c", RUNNER], capture_output=True, text=True, check=True)

    unwanted = ("jinja2", "pyspark", "zipfile", "tidegate.schemas.authoring")
    assert [name for name in ended.stdout.split() if name.startswith(unwanted)] == []
