"""Modules beside DAG files: what a file imports of another one of the same folder is there, or listed."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tidegate.daemon.airflow_import.report import Translation
from tidegate.daemon.airflow_import.translate import translate_tree

DAG = """
from datetime import datetime
from airflow import DAG
from airflow.operators.bash import BashOperator
from airflow.operators.python import PythonOperator
{imports}
with DAG("d", start_date=datetime(2026, 1, 1), schedule=None{options}) as dag:
    {task}
"""


def tree(folder: Path, files: Mapping[str, str]) -> dict[str, Translation]:
    """The translations by path."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    names = {folder / name: Path(name) for name in files}
    found = translate_tree(names, {"dags"})
    return {names[file].as_posix(): result for file, result in found.items() if isinstance(result, Translation)}


def dag_file(imports: str, task: str = "pass", options: str = "") -> str:
    return DAG.format(imports=imports, task=task, options=options)


CONFIG = "import os\nQUEUE = 'etl'\nCOMMANDS = ['a', 'b']\ndef name(text):\n    return f'x_{text}'\n"


@pytest.mark.parametrize(
    ("imports", "used", "written"),
    [
        ("from config import QUEUE", "QUEUE", "from config import QUEUE"),
        ("from config import QUEUE as q", "q", "from config import QUEUE as q"),
        ("import config", "config.QUEUE", "import config"),
        ("from dags.config import QUEUE", "QUEUE", "from config import QUEUE"),
        ("from .config import QUEUE", "QUEUE", "from config import QUEUE"),
        ("from config import *", "QUEUE", "from config import QUEUE"),
        ("from config import name", "name('q')", "from config import name"),
        ("from again import QUEUE", "QUEUE", "from config import QUEUE"),
    ],
)
def test_a_name_of_a_module_of_the_folder_is_imported(tmp_path: Path, imports: str, used: str, written: str) -> None:
    task = f"BashOperator(task_id='t', bash_command={used})"
    found = tree(tmp_path, {"dag.py": dag_file(imports, task), "config.py": CONFIG, "again.py": "from config import QUEUE\n"})

    assert written in found["dag.py"].text.splitlines()
    assert found["dag.py"].omissions == ()


def test_a_function_of_a_module_gets_its_context(tmp_path: Path) -> None:
    steps = "import pandas\ndef load(table, ds):\n    return pandas.read_csv(table)\n"
    task = "PythonOperator(task_id='t', python_callable=load, op_args=['x'])"
    found = tree(tmp_path, {"dag.py": dag_file("from lib.steps import load", task), "lib/steps.py": steps})

    assert 'return load("x", ds=run.ds)' in found["dag.py"].text
    assert (found["dag.py"].omissions, found["lib/steps.py"].omissions) == ((), ())


def test_a_module_that_only_functions_use_stays_as_it_is(tmp_path: Path) -> None:
    steps = "import pandas\nFRAME = pandas.DataFrame()\ndef load():\n    return FRAME\n"
    task = "PythonOperator(task_id='t', python_callable=load)"
    found = tree(tmp_path, {"dag.py": dag_file("from steps import load", task), "steps.py": steps})

    assert found["steps.py"] == Translation(steps, ())


def test_a_name_that_a_module_lost_is_lost_where_it_is_imported(tmp_path: Path) -> None:
    config = "from airflow.models import Variable\nQUEUE = Variable.get('queue')\nOTHER = 1\n"
    task = "BashOperator(task_id='t', bash_command=f'{QUEUE}')"
    found = tree(tmp_path, {"dag.py": dag_file("from config import QUEUE", task), "config.py": config})

    assert [part.why for part in found["dag.py"].omissions] == ["QUEUE of config.py is a variable of Airflow"]


def test_default_args_of_a_module_are_options(tmp_path: Path) -> None:
    config = "args = {'owner': 'a', 'retries': 2, 'retry_exponential_backoff': True}\n"
    found = tree(tmp_path, {"dag.py": dag_file("import config", options=", default_args=config.args"), "config.py": config})

    assert "default_args=config.args" in found["dag.py"].text
    assert '"retry_exponential_backoff": 2' in found["config.py"].text


def test_a_function_that_makes_tasks_gets_the_dag_around_its_call(tmp_path: Path) -> None:
    steps = "from airflow.operators.bash import BashOperator\ndef step(name):\n"
    steps += "    return BashOperator(task_id=name, bash_command='true')\n"
    found = tree(tmp_path, {"dag.py": dag_file("from steps import step", "step('a') >> step('b')"), "steps.py": steps})

    assert 'step("a", dag=dag) >> step("b", dag=dag)' in found["dag.py"].text
    assert "def step(name, *, dag):" in found["steps.py"].text


def test_a_task_of_a_module_becomes_one_where_it_is_called(tmp_path: Path) -> None:
    steps = "from airflow.decorators import task\n@task(retries=1)\ndef load(table):\n    return table\n"
    found = tree(tmp_path, {"dag.py": dag_file("import steps", "steps.load('x')"), "steps.py": steps})

    assert 'return steps.load("x")' in found["dag.py"].text
    assert found["steps.py"].text.strip() == "def load(table):\n    return table"
    assert found["dag.py"].omissions == ()
