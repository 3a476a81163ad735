"""Words of Airflow in options and templates: mails, owners, texts for readers, dates and variables that hold templates."""

import pytest

from tests.unit.airflow_import.test_hostile import translated
from tidegate.schemas.authoring.build import build
from tidegate.schemas.dag import CommandTask

HEAD = """
from datetime import datetime
from airflow import DAG
from airflow.operators.bash import BashOperator
from airflow.operators.python import PythonOperator
DAY, OLD = "{{ execution_date }}", "{{ macros.random() }}"
PARTS = f"x {DAY}"
def work(execution_date, **context):
    return execution_date.subtract(days=1), context["data_interval_start"].year
"""
DAG = 'with DAG("d", start_date=datetime(2026, 1, 1), schedule=None{options}) as dag:\n    {task}\n'


def dag_with(options: str = "", task: str = "BashOperator(task_id='t', bash_command='x')") -> tuple[str, list[str]]:
    """The text of the translation, which makes a DAG, and what is left out."""
    result = translated(HEAD + DAG.format(options=options and f", {options}", task=task))
    assert len(build(result.text, "file.py")) == 1
    return result.text, [part.what for part in result.omissions]


@pytest.mark.parametrize(
    ("options", "written", "left_out"),
    [
        ("default_args={'email': 'a@x.org, b@x.org'}", ['"on_failure": Email("a@x.org", "b@x.org")', '"on_retry": Email('], []),
        ("default_args={'email': ['a@x.org'], 'email_on_retry': False}", ['default_args={"on_failure": Email("a@x.org")}'], []),
        ("default_args={'email': ['a@x.org'], 'email_on_retry': False, 'email_on_failure': False}", ['"d"'], []),
        ("default_args={'email': ['nobody']}", ['"d"'], ["email= of default_args"]),
        ("default_args={'email': ['a@x.org'], 'on_failure_callback': work}", ['"d"'],
         ["email= of default_args", "on_failure_callback= of default_args"]),
        ("default_args={'owner': 'data'}", ['tags=["data"]'], []),
        ("default_args={'owner': 'data'}, tags=['a']", ['tags=["a", "data"]'], []),
        ("default_args={'owner': 'airflow'}", ['"d"'], []),
        ("doc_md='text'", ['description="text"'], []),
        ("doc_md='text', description='other'", ['description="other"'], ["doc_md= of DAG"]),
        ("default_args={'retries': None}", ['"d"'], []),
    ],
)  # fmt: skip
def test_options_of_a_dag(options: str, written: list[str], left_out: list[str]) -> None:
    text, omitted = dag_with(options)

    assert [part for part in written if part not in text] == []
    assert omitted == left_out


@pytest.mark.parametrize(
    ("command", "written"),
    [
        ("DAY", "{{ logical_date }}"),
        ("PARTS", "x {{ logical_date }}"),
        ("'a ' + DAY", "a {{ logical_date }}"),
        ("'{{ execution_date | ds }}'", "{{ logical_date.strftime('%Y-%m-%d') }}"),
        ("'{{ data_interval_start | ds_nodash }}'", "{{ data_interval_start.strftime('%Y%m%d') }}"),
        ("'{{ execution_date.to_date_string() }}'", "{{ logical_date.strftime('%Y-%m-%d') }}"),
    ],
)
def test_dates_in_templates(command: str, written: str) -> None:
    text, omitted = dag_with(task=f"BashOperator(task_id='t', bash_command={command})")

    (task,) = build(text, "file.py")[0].spec().tasks
    assert isinstance(task, CommandTask)
    assert (task.argv[-1], omitted) == (written, [])


@pytest.mark.parametrize("command", ["OLD", "'{{ execution_date.subtract(days=1) }}'", "'{{ logical_date.add(days=1) }}'"])
def test_a_template_that_no_run_could_render_is_left_out(command: str) -> None:
    text, omitted = dag_with(task=f"BashOperator(task_id='t', bash_command={command})")

    assert omitted == ["BashOperator 't'"]
    assert '["false"]' in text


def test_methods_of_pendulum_in_a_function_are_listed() -> None:
    _, omitted = dag_with(task="PythonOperator(task_id='t', python_callable=work)")

    assert omitted == ["subtract of a date in work"]
