"""Which files are DAG files."""

import pytest

from tidegate.daemon.dagfiles.recognition import compiled, dag_name


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("from tidegate import Dag", "tidegate"),
        ("import tidegate", "tidegate"),
        ("import os, tidegate as t", "tidegate"),
        ("import os; from tidegate.schemas.authoring.dag import Dag", "tidegate"),
        ("def build():\n  from tidegate import Dag\nbuild()", "tidegate"),
        ("from lib.factory import make_dag\nmake_dag('x')", "make_dag"),
        ("from lib.dags import build\nbuild('x')", "lib.dags"),
        ("import lib\nlib.DagFactory('x')", "DagFactory"),
        ("from lib import make\ndag = make('x')", "dag"),
        ("import tidegate.events, tidegate\ntidegate.Dag('d')", "Dag"),
        ("import tidegate\ndef f(:\n", "tidegate"),
        ("from lib import pipeline\npipeline(dag_id='sales')", "dag_id"),
        ("from lib import pipeline\nfor dag_id in 'ab':\n  pipeline(\n    # one each\n    dag_id=dag_id)", "dag_id"),
        ("from lib import pipeline\npipeline(\n    dag_id='sales',\n", "dag_id"),
        ("", None),
        ("import os\nos.environ['TIDEGATE_EVENTS']", None),
        ("# reads the daggers table, for the dag\n'''tidegate dag'''", None),
        ("import lib\nlib.daggers()", None),
        ("import sys\ndag_id, dag_run = sys.argv[1:]", None),
        ("import tidegate.events", None),
        ("from tidegate.events import Publisher", None),
        ("import sys\ndag_id = sys.argv[1]\nif dag_id == 'sales' or ('dag_id', 'dag_id=1'):\n  print(dag_id)", None),
        ("from tidegate.events import Publisher\nPublisher().task_finished(dag_id='sales')", None),
        ("print 'TIDEGATE_EVENTS'", None),
    ],
)
def test_a_dag_file_imports_tidegate_or_names_a_dag(source: str, name: str | None) -> None:
    assert dag_name(source, compiled(source, "f.py")) == name
