"""Variables of Airflow: parameters of the run, secrets in the environment, and defaults where DAG files are parsed."""

import pytest

from tests.unit.airflow_import.test_hostile import translated
from tidegate.schemas.authoring.build import build
from tidegate.schemas.dag import CommandTask, Secret

HEAD = """
from datetime import datetime
from airflow import DAG
from airflow.models import Variable
from airflow.operators.bash import BashOperator
from airflow.operators.python import PythonOperator
def work(*args, **options):
    return args, options
CONF = Variable.get("conf", deserialize_json=True)
HOST = CONF["host"]
PATH = f"{HOST}/x"
with DAG("d", start_date=datetime(2026, 1, 1), schedule=None) as dag:
    """


@pytest.mark.parametrize(
    ("command", "written"),
    [
        ("'x {{ var.value.key }}'", "x {{ params.key }}"),
        ("'x {{ var.json.key.part }}'", "x {{ params.key.part }}"),
        ("\"x {{ var.value.get('key', 'd') }}\"", "x {{ params.get('key', 'd') }}"),
        ("Variable.get('key')", "{{ params['key'] }}"),
        ("f\"x {Variable.get('key')} y\"", "x {{ params['key'] }} y"),
        ("f'x {PATH}'", "x {{ params['conf']['host'] }}/x"),
        ("'x ' + HOST", "x {{ params['conf']['host'] }}"),
    ],
)
def test_a_variable_in_a_text_is_a_parameter(command: str, written: str) -> None:
    result = translated(f"{HEAD}BashOperator(task_id='t', bash_command={command})")

    (task,) = build(result.text, "file.py")[0].spec().tasks
    assert isinstance(task, CommandTask)
    assert task.argv[-1] == written
    assert any(part.what.startswith("Variable ") for part in result.omissions)


@pytest.mark.parametrize(
    ("argument", "written"),
    [
        ("Variable.get('key')", 'work(run.params["key"])'),
        ("Variable.get('key', default_var='d')", 'work(run.params.get("key", "d"))'),
        ("HOST", 'work(run.params["conf"]["host"])'),
        ("PATH", "work(f\"{run.params['conf']['host']}/x\")"),
    ],
)
def test_a_variable_in_an_argument_of_a_function_is_a_parameter(argument: str, written: str) -> None:
    result = translated(f"{HEAD}PythonOperator(task_id='t', python_callable=work, op_args=[{argument}])")

    assert len(build(result.text, "file.py")) == 1
    assert written in result.text


def test_a_variable_in_the_environment_is_a_secret() -> None:
    result = translated(f"{HEAD}BashOperator(task_id='t', bash_command='x', env={{'A': Variable.get('key'), 'B': HOST}})")

    (task,) = build(result.text, "file.py")[0].spec().tasks
    assert isinstance(task, CommandTask)
    assert task.env == {"A": Secret("key"), "B": "{{ params['conf']['host'] }}"}


def test_a_default_is_written_where_dag_files_are_parsed() -> None:
    result = translated(f"{HEAD}BashOperator(task_id=Variable.get('id', default_var='t'), bash_command='x')")

    assert [task.task_id for task in build(result.text, "file.py")[0].spec().tasks] == ["t"]
    assert "Variable id" in [part.what for part in result.omissions]


def test_a_loop_over_a_variable_is_left_out() -> None:
    result = translated(f"{HEAD}for name in CONF:\n        BashOperator(task_id=name, bash_command='x')")

    assert build(result.text, "file.py")[0].spec().tasks == ()
    assert "for name in CONF:" in [part.what for part in result.omissions]
