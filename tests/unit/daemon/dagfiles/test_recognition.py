"""Which files are DAG files."""

import pytest

from tidegate.daemon.dagfiles.recognition import dag_name


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
        ("", None),
        ("import os\nos.environ['TIDEGATE_EVENTS']", None),
        ("# reads the daggers table, for the dag\n'''tidegate dag'''", None),
        ("import lib\nlib.daggers()", None),
        ("import sys\ndag_id, dag_run = sys.argv[1:]", None),
        ("import tidegate.events", None),
        ("from tidegate.events import Publisher", None),
        ("print 'TIDEGATE_EVENTS'", None),
    ],
)
def test_a_dag_file_imports_tidegate_or_has_a_name_with_the_word_dag(source: str, name: str | None) -> None:
    assert dag_name(source, "f.py") == name
