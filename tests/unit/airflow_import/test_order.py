"""The order of tasks around what has no equivalent: known edges stay, and a task that fails fills each gap."""

import pytest

from tests.unit.airflow_import.test_hostile import translated
from tidegate.schemas.authoring.build import build

HEAD = """
from datetime import datetime
from airflow import DAG
from airflow.models.baseoperator import chain
from airflow.operators.bash import BashOperator
from airflow.utils.task_group import TaskGroup
from elsewhere import make
def task(name, **options):
    return BashOperator(task_id=name, bash_command="true", **options)
dag = DAG("d", start_date=datetime(2026, 1, 1), schedule=None)
a = BashOperator(task_id="a", bash_command="true", dag=dag)
b = BashOperator(task_id="b", bash_command="true", dag=dag)
c = BashOperator(task_id="c", bash_command="true", dag=dag)
"""


def edges(source: str) -> tuple[set[tuple[str, str]], set[str]]:
    """The order of the translation, and the ids of its tasks that fail."""
    (dag,) = build(translated(HEAD + source).text, "file.py")
    spec = dag.spec()
    fails = {task.task_id for task in spec.tasks if getattr(task, "argv", ()) == ("false",)}
    return {(before, task.task_id) for task in spec.tasks for before in task.upstream}, fails


@pytest.mark.parametrize(
    ("source", "order", "fails"),
    [
        ("x = make()\na >> x >> b", {("a", "x"), ("x", "b")}, {"x"}),
        ("x = make()\na >> x\nx >> b", {("a", "x"), ("x", "b")}, {"x"}),
        ("a >> make() >> b >> c", {("a", "make"), ("make", "b"), ("b", "c")}, {"make"}),
        ("a >> [b, make(1)] >> c", {("a", "b"), ("a", "make"), ("b", "c"), ("make", "c")}, {"make"}),
        ("c << make() << a", {("a", "make"), ("make", "c")}, {"make"}),
        ("a.set_downstream([make(), b])", {("a", "make"), ("a", "b")}, {"make"}),
        ("make().set_upstream(a)", {("a", "make")}, {"make"}),
        ("chain(a, make(), [b, c])", {("a", "make"), ("make", "b"), ("make", "c")}, {"make"}),
        ("chain([a], [b], [c])", {("a", "b"), ("b", "c")}, set()),
        ("for name in 'xy':\n    step = make(name)\n    a >> step >> b", {("a", "step"), ("step", "b")}, {"step"}),
        ("a_id = make()\na >> b >> c", {("a", "b"), ("b", "c")}, set()),
        ("x = BashOperator(task_id='x', bash_command='true')\na >> x >> b", {("a", "x"), ("x", "b")}, set()),
        ("x = BashOperator(task_id='x', bash_command='true')\ndag >> x", set(), set()),
        ("xs = [BashOperator(task_id='x', bash_command='true')]\na >> xs", {("a", "x")}, set()),
        ("with dag:\n    with TaskGroup('g') as g:\n        BashOperator(task_id='x', bash_command='true')\na >> [b, g]",
         {("a", "b"), ("a", "g.x")}, set()),
        ("x = make()\nwith dag:\n    y = a >> x", {("a", "x")}, {"x"}),
    ],
)  # fmt: skip
def test_known_edges_stay_and_gaps_are_bridged(source: str, order: set[tuple[str, str]], fails: set[str]) -> None:
    assert edges(source) == (order, fails)


def test_a_dag_whose_default_args_come_from_elsewhere_stays() -> None:
    source = HEAD.replace('DAG("d", ', 'DAG("d", default_args=make, ')

    result = translated(source)

    assert len(build(result.text, "file.py")) == 1
    assert "default_args of DAG" in [part.what for part in result.omissions]


@pytest.mark.parametrize(("dag_id", "written"), [("make.name", "file"), ("make() + '_x'", "file"), ("'d'", "d")])
def test_a_dag_id_that_is_not_known_is_the_name_of_the_file(dag_id: str, written: str) -> None:
    result = translated(HEAD.replace('"d"', dag_id))

    assert [dag.dag_id for dag in build(result.text, "file.py")] == [written]
    assert ("dag_id of DAG" in [part.what for part in result.omissions]) == (written == "file")
