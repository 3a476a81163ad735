"""Nothing of an Airflow file is dropped in silence: each part is in the Tidegate file, or its lines are in the list.

The tests put a mark into a part of a file. The mark has to be in the text, or the list has to name it or to cover its line.
They know nothing of how the import works.
"""

import ast
import os
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.airflow_import.golden import FILES
from tidegate.daemon.airflow_import.report import Translation
from tidegate.daemon.airflow_import.source import parse_source
from tidegate.daemon.airflow_import.translate import translate_source
from tidegate.schemas.authoring.build import build

MARK = "marked_by_the_test"

LONG = bool(os.environ.get("TEST_LONG"))
"""Whether each mark is put into each place. Else each place of a file gets one of them, in turns."""


def translated(source: str) -> Translation:
    return translate_source(parse_source("file.py", source.encode()))


def accounted(result: Translation, line: int) -> bool:
    """Whether the mark on a line is in the text, or listed."""
    covered = any(part.line <= line <= part.end_line or MARK in part.what for part in result.omissions)
    return covered or MARK in result.text


def line_of_mark(source: str) -> int:
    return source[: source.index(MARK)].count("\n") + 1


def unaccounted(trees: Iterator[ast.Module]) -> list[str]:
    """The lines with a mark that neither the text nor the list has."""
    sources = [ast.unparse(ast.fix_missing_locations(tree)) for tree in trees]
    lines = [(source, line_of_mark(source)) for source in sources]
    return [source.splitlines()[line - 1] for source, line in lines if not accounted(translated(source), line)]


def marked_calls(text: str, first: int, step: int) -> Iterator[tuple[ast.Module, ast.Call]]:
    """The file once for each of these calls, and the call in it."""
    for index in range(first, len(calls(ast.parse(text))), step):
        tree = ast.parse(text)
        yield tree, calls(tree)[index]


def calls(tree: ast.Module) -> list[ast.Call]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call)]


def with_keyword(text: str) -> Iterator[ast.Module]:
    """The file with one more keyword, in each of its calls in turn, or in every other one."""
    for tree, call in marked_calls(text, 0, 1 if LONG else 2):
        call.keywords.append(ast.keyword(arg=MARK, value=ast.Constant(value=1)))
        yield tree


def with_argument(text: str) -> Iterator[ast.Module]:
    """The file with one more positional argument, in each of its calls in turn, or in those without the keyword."""
    for tree, call in marked_calls(text, 0 if LONG else 1, 1 if LONG else 2):
        call.args.append(ast.Constant(value=MARK))
        yield tree


def with_statement(text: str, statement: str, first: int, step: int) -> Iterator[ast.Module]:
    """The file with one more statement, at the end of each of these blocks in turn."""
    for index in range(first, len(blocks(ast.parse(text))), step):
        tree = ast.parse(text)
        block = blocks(tree)[index]
        block.insert(len(block) - isinstance(block[-1], ast.Return | ast.Pass), ast.parse(statement).body[0])
        yield tree


def blocks(tree: ast.Module) -> list[list[ast.stmt]]:
    lists = (getattr(node, name, None) for node in ast.walk(tree) for name in ("body", "orelse", "finalbody"))
    return [block for block in lists if isinstance(block, list) and block and isinstance(block[0], ast.stmt)]


@pytest.mark.long
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_keyword_of_any_call_is_kept_or_listed(path: Path) -> None:
    assert unaccounted(with_keyword(path.read_text())) == []


@pytest.mark.long
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_argument_of_any_call_is_kept_or_listed(path: Path) -> None:
    assert unaccounted(with_argument(path.read_text())) == []


STATEMENTS = (f"{MARK} = 1", f"{MARK}()", f"print('{MARK}')", f"del {MARK}", f"class {MARK}:\n    pass")


@pytest.mark.long
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_statement_of_any_block_is_kept_or_listed(path: Path, statement: str) -> None:
    first, step = (0, 1) if LONG else (STATEMENTS.index(statement), len(STATEMENTS))

    assert unaccounted(with_statement(path.read_text(), statement, first, step)) == []


TASKS = (
    "{v} = BashOperator(task_id='{v}', bash_command='echo {m}')",
    "{v} = BashOperator(task_id='{v}', bash_command='echo', env={{'A': '{m}'}}, cwd='/{m}')",
    "{v} = PythonOperator(task_id='{v}', python_callable=work, op_kwargs={{'a': '{m}'}})",
    "{v} = PythonOperator(task_id='{v}', python_callable=work, op_args=['{m}'], templates_dict={{'x': '{m}'}})",
    "{v} = SparkSubmitOperator(task_id='{v}', application='{m}.py', spark_binary='{m}')",
    "{v} = SQLExecuteQueryOperator(task_id='{v}', sql='SELECT {m}', hook_params={{'a': '{m}'}})",
    "{v} = HttpSensor(task_id='{v}', endpoint='{m}')",
    "{v} = flow('{m}')",
    "{v} = flow.override(task_id='{v}')(['{m}'])",
    "{v} = flow.partial(y='{m}').expand(x=[1])",
    "{v} = flow.expand(x=['{m}'])",
    "{v} = EmptyOperator(task_id='{v}', outlets=[Dataset('s3://{m}')])",
    "{v} = EmptyOperator(task_id='{v}', params={{'x': '{m}'}}, doc_md='{m}')",
)
OTHERS = (
    "{v} = '{m}'",
    "print('{m}')",
    "{v} = Variable.get('{m}')",
    "with TaskGroup('{m}', tooltip='{m}'):\n    EmptyOperator(task_id='{v}')",
    "for {v} in ['{m}']:\n    EmptyOperator(task_id={v})",
    "if os.environ.get('{m}'):\n    EmptyOperator(task_id='{v}')",
    "{v} = [EmptyOperator(task_id=name) for name in ['{m}']]",
    "chain(first, EmptyOperator(task_id='{m}'))",
    "first >> Label('{m}') >> last",
    "first.set_downstream(EmptyOperator(task_id='{m}'))",
    "first.doc_md = '{m}'",
    "def {v}():\n    return '{m}'",
)
HEAD = """
import os
from datetime import datetime
from airflow import DAG
from airflow.datasets import Dataset
from airflow.decorators import task
from airflow.models import Variable
from airflow.models.baseoperator import chain
from airflow.operators.bash import BashOperator
from airflow.operators.empty import EmptyOperator
from airflow.operators.python import PythonOperator
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.common.sql.operators.sql import SQLExecuteQueryOperator
from airflow.providers.http.sensors.http import HttpSensor
from airflow.utils.edgemodifier import Label
from airflow.utils.task_group import TaskGroup

def work(a):
    return a

@task
def flow(x, y=1):
    return x

with DAG("drawn", start_date=datetime(2024, 1, 1), schedule=None) as dag:
    first, last = EmptyOperator(task_id="first"), EmptyOperator(task_id="last")
"""


@st.composite
def programs(draw: st.DrawFn) -> tuple[str, Sequence[str]]:
    """A file of drawn statements, and the marks in it."""
    chosen = draw(st.lists(st.sampled_from((*TASKS, *OTHERS)), min_size=1, max_size=8))
    marks = [f"mark{number}x" for number in range(len(chosen))]
    drawn = [text.format(v=f"v{number}", m=marks[number]) for number, text in enumerate(chosen)]
    return HEAD + "".join(f"    {line}\n" for text in drawn for line in text.splitlines()), marks


@settings(max_examples=150, deadline=None, derandomize=True)
@given(programs())
def test_each_text_of_a_drawn_file_is_kept_or_listed_and_the_result_is_a_dag(drawn: tuple[str, Sequence[str]]) -> None:
    source, marks = drawn
    result = translated(source)

    for mark in marks:
        lines = [number for number, line in enumerate(source.splitlines(), 1) if mark in line]
        assert all(in_text(result, mark) or listed(result, line, mark) for line in lines), (mark, result.text)
    assert [dag.spec().dag_id for dag in build(result.text, "drawn.py")] == ["drawn"]


def in_text(result: Translation, mark: str) -> bool:
    return any(mark in line for line in result.text.splitlines() if not line.strip().startswith("#"))


def listed(result: Translation, line: int, mark: str) -> bool:
    return any(part.line <= line <= part.end_line for part in result.omissions) or any(
        mark in part.what for part in result.omissions
    )


def test_the_same_source_gives_the_same_translation() -> None:
    for path in random.Random(7).sample(FILES, 5):
        assert translated(path.read_text()) == translated(path.read_text())
