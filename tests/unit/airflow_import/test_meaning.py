"""What a translation means: each row is a piece of an Airflow file, what is in its translation, and what is left out."""

import ast

import pytest

from tests.unit.airflow_import.test_hostile import translated
from tidegate.daemon.airflow_import.vocabulary import COMPUTED_CONTEXT, UNKNOWN_CONTEXT
from tidegate.schemas.authoring.build import build

HEAD = """
import os
from datetime import datetime, timedelta, timezone
from airflow import DAG
from airflow.datasets import Dataset
from airflow.decorators import setup, task, teardown
from airflow.operators.bash import BashOperator
from airflow.operators.empty import EmptyOperator
from airflow.operators.python import PythonOperator
"""


def meaning(source: str) -> tuple[str, list[str]]:
    """The text of a translation, which makes a DAG, and what is left out."""
    result = translated(source)
    assert len(build(result.text, "file.py")) == 1
    return result.text, [part.what for part in result.omissions]


@pytest.mark.parametrize(
    "imported",
    [
        "from databricks.sdk import WorkspaceClient",
        "import opentelemetry.sdk.trace",
        "from models import Asset",
        "from acme.standard.etl import extract",
    ],
)
def test_names_of_other_packages_make_no_file_of_airflow_3(imported: str) -> None:
    text, left_out = meaning(HEAD + f"{imported}\nwith DAG('d', start_date=datetime(2026, 1, 1), schedule='@daily'):\n    pass\n")

    assert ('cron("0 0 * * *", mode="interval")' in text, "catchup=True" in text, left_out) == (True, True, [])


@pytest.mark.parametrize(
    ("options", "paused"),
    [
        ("schedule='@daily'", True),
        ("schedule='@daily', catchup=True", True),
        ("schedule='@daily', catchup=False", True),
        ("schedule=[Dataset('s3://a')]", True),
        ("schedule=None", False),
        ("schedule='@daily', is_paused_upon_creation=False", False),
        ("schedule='@daily', catchup=False, is_paused_upon_creation=True", True),
        ("schedule='@daily', is_paused_upon_creation=True", True),
    ],
)
def test_a_dag_with_a_schedule_begins_paused(options: str, paused: bool) -> None:
    text, left_out = meaning(HEAD + f"with DAG('d', start_date=datetime(2026, 1, 1), {options}):\n    pass\n")

    assert (text.count("paused=True"), left_out) == (paused, [])


@pytest.mark.parametrize(
    ("params", "body", "extra"),
    [
        ("{'a': 1}", "BashOperator(task_id='t', bash_command='echo {{ dag_run.conf.b }}')", True),
        ("{'a': 1}", "BashOperator(task_id='t', bash_command='echo {{ dag_run.conf[\"b\"] }}')", True),
        ("{'a': 1}", "BashOperator(task_id='t', bash_command='echo {{ dag_run.conf.get(\"b\", 1) }}')", True),
        ("{'a': 1}", "BashOperator(task_id='t', bash_command='echo {{ dag_run.conf | tojson }}')", True),
        ("{'a': 1}", "BashOperator(task_id='t', bash_command='echo {{ dag_run.conf.get(\"a\") }} {{ dag_run.conf.a }}')", False),
        ("{'a': 1}", "PythonOperator(task_id='t', python_callable=lambda dag_run: print(dag_run.conf['b']))", True),
        ("{'a': 1}", "PythonOperator(task_id='t', python_callable=lambda **k: print(k['dag_run'].conf.get('b')))", True),
        ("{'a': 1}", "PythonOperator(task_id='t', python_callable=lambda **k: print(k['dag_run'].conf))", True),
        ("{'a': 1}", "PythonOperator(task_id='t', python_callable=lambda **k: print(k['dag_run'].conf['a']))", False),
        ("{'a': 1}", "PythonOperator(task_id='t', python_callable=lambda **k: print(k['task'].conf['b']))", False),
        ("dict(a=1)", "BashOperator(task_id='t', bash_command='echo {{ dag_run.conf.a }}')", False),
        ("{**os.environ}", "BashOperator(task_id='t', bash_command='echo {{ dag_run.conf.a }}')", True),
        (None, "BashOperator(task_id='t', bash_command='echo {{ dag_run.conf.b }}')", False),
    ],
)
def test_a_dag_that_reads_keys_of_the_conf_that_are_no_params_takes_them(params: str | None, body: str, extra: bool) -> None:
    given = f", params={params}" if params else ""

    text, _ = meaning(HEAD + f"with DAG('d', schedule=None{given}):\n    {body}\n")

    assert ("extra_params=True" in text) == extra


STANDARD = "from airflow.providers.standard.operators.bash import BashOperator"
TRIED = "try:\n    from airflow.sdk import DAG\nexcept ImportError:\n    from airflow import DAG"


@pytest.mark.parametrize(
    ("imports", "options", "expected", "guess"),
    [
        (STANDARD, ", schedule='@daily'", True, "2"),
        (STANDARD, ", schedule=None", False, None),
        (f"{STANDARD}\nfrom airflow.sdk import DAG", ", schedule='@daily'", False, None),
        ("from airflow.sdk import DAG", ", schedule='@daily'", False, None),
        (TRIED, ", schedule='@daily'", False, "3"),
        (TRIED, "", False, "3"),
    ],
)
def test_a_guess_of_the_version_of_airflow_is_in_the_report(
    imports: str, options: str, expected: bool, guess: str | None
) -> None:
    result = translated(HEAD + f"{imports}\nwith DAG('d', start_date=datetime(2026, 1, 1){options}):\n    pass\n")

    assert ("interval" in result.text, "catchup" in result.text) == (expected, expected)
    assert [part.why.rpartition(" ")[2] for part in result.omissions] == ([guess] if guess else [])


@pytest.mark.parametrize(
    ("before", "schedule", "unknown"),
    [
        ("S = os.environ.get('SCHED', '@daily')", "S", True),
        ("S = '@daily' if os.environ else None", "S", True),
        ("M = 5\nS = f'{M} 3 * * *'", "S", True),
        ("M = '5'\nS = M + ' 3 * * *'", "S", True),
        ("", "os.environ.get('SCHED', '@daily')", True),
        ("", "'@daily' if os.environ else None", True),
        ("M = '5'", "M + ' 3 * * *'", True),
        ("S = '@daily'", "S", False),
    ],
)
@pytest.mark.parametrize("catchup", [", catchup=True", "", ", catchup=False"])
def test_a_schedule_that_may_be_a_time_keeps_catchup(before: str, schedule: str, unknown: bool, catchup: str) -> None:
    dag = f"with DAG('d', start_date=datetime(2026, 1, 1), schedule={schedule}{catchup}):\n    pass\n"

    text, left_out = meaning(f"{HEAD}{before}\n{dag}")

    assert ("catchup=True" in text) == ("False" not in catchup)
    assert [what.startswith("data interval of schedule") for what in left_out] == [True] * unknown


@pytest.mark.parametrize("options", ["start_date=days_ago(7)", "start_date=days_ago(7), catchup=True", "catchup=True"])
def test_catchup_stays_where_the_start_is_left_out(options: str) -> None:
    moving = "from airflow.utils.dates import days_ago\n"

    text, left_out = meaning(f"{HEAD}{moving}with DAG('d', schedule='@daily', {options}):\n    pass\n")

    assert ("catchup=True" in text, left_out) == (True, ["start_date= of DAG"] * ("days_ago" in options))


@pytest.mark.parametrize(
    ("before", "schedule"),
    [
        ("S = Dataset('a')", "S"),
        ("S = [Dataset('a'), Dataset('b')]", "S"),
        ("A = Dataset('a')\nS = A & Dataset('b')", "S"),
        ("A = Dataset('a')", "A | Dataset('b')"),
        ("S = [Dataset('a') for _ in 'a']", "S"),
        ("", "[Dataset('a') for _ in 'a']"),
        ("", "Dataset('a')"),
        ("", "'@once'"),
    ],
)
def test_datasets_have_no_runs_to_catch_up(before: str, schedule: str) -> None:
    dag = f"with DAG('d', start_date=datetime(2026, 1, 1), schedule={schedule}, catchup=True):\n    pass\n"

    text, left_out = meaning(f"{HEAD}{before}\n{dag}")

    assert ("catchup" in text, left_out) == (False, [])


DAG_HEAD = "with DAG('d', schedule=None) as dag:\n"


def test_each_name_of_the_context_is_passed_or_left_out() -> None:
    parameters = ", ".join(f"{name}=None" for name in ("ds", *COMPUTED_CONTEXT, *UNKNOWN_CONTEXT, "task_id"))

    text, left_out = meaning(
        f"{HEAD}def load({parameters}):\n    pass\n{DAG_HEAD}    PythonOperator(task_id='t', python_callable=load)\n"
    )

    (call,) = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call) and ast.unparse(node.func) == "load"]
    assert {option.arg for option in call.keywords} == {"ds", *COMPUTED_CONTEXT}
    assert sorted(left_out) == sorted(f"context {name} in load" for name in UNKNOWN_CONTEXT)


@pytest.mark.parametrize(
    ("function", "options", "call", "unknown"),
    [
        ("def f(ds_nodash=None): pass", "python_callable=f", 'f(ds_nodash=run.ds.replace("-", ""))', []),
        ("def f(**kw): print(kw['ds_nodash'])", "python_callable=f", 'f(ds_nodash=run.ds.replace("-", ""))', []),
        ("def f(x): pass", "python_callable=f, op_args=['{{ ds_nodash }}']", 'f(run.ds.replace("-", ""))', []),
        (
            "def f(outlets, reason=''): pass",
            "python_callable=f, op_args=['a'], op_kwargs={'reason': 'b'}",
            'f("a", reason="b")',
            [],
        ),
        ("", "python_callable=lambda ds, x=1: print(ds, x)", "(lambda ds, x=1: print(ds, x))(ds=run.ds)", []),
        ("from etl import load", "python_callable=load", "load()", ["context of Airflow for load"]),
        ("import etl", "python_callable=etl.load", None, ["PythonOperator 't'"]),
        (
            "from functools import partial\ndef f(ds=None): pass",
            "python_callable=partial(f, 1)",
            "partial(f, 1)()",
            ["context of Airflow for partial(f, 1)"],
        ),
        ("import time", "python_callable=time.sleep, op_args=[1]", "time.sleep(1)", []),
        ("", "python_callable=print, op_args=[1]", "print(1)", []),
    ],
)
def test_a_function_gets_its_part_of_the_context(function: str, options: str, call: str | None, unknown: list[str]) -> None:
    text, left_out = meaning(f"{HEAD}{function}\n{DAG_HEAD}    PythonOperator(task_id='t', {options})\n")

    assert (call is None or f"return {call}" in text, left_out) == (True, unknown), text
