"""Running a DAG file: its DAGs, and the lines of its mistakes."""

import sys
import traceback
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from unittest.mock import ANY

import pytest

from tidegate import Dag, DagError
from tidegate.schemas.authoring.build import build
from tidegate.schemas.authoring.collection import collect_dags
from tidegate.schemas.authoring.mistakes import note_mistakes


def ids(source: str, filename: str = "dags/example.py") -> list[str]:
    return [dag.dag_id for dag in build(dedent(source), filename)]


def line_of(error: BaseException, filename: str) -> int | None:
    return [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == filename][-1]


def test_the_dags_of_a_file_come_in_the_order_they_are_built() -> None:
    source = """
        from tidegate import Dag
        for name in ("b", "a", "c"):
            Dag(name)
    """

    assert ids(source) == ["b", "a", "c"]


def test_a_dag_built_by_a_function_of_the_file_belongs_to_it() -> None:
    source = """
        from tidegate import Dag
        def make(name):
            with Dag(name) as dag:
                dag.empty("only")
        make("made")
    """

    assert ids(source) == ["made"]


def test_the_functions_of_a_file_can_be_called_and_see_its_globals() -> None:
    source = """
        from tidegate import Dag
        FACTOR = 2
        dag = Dag("d")
        @dag.task
        def double(spark, run):
            return FACTOR * run
    """

    (dag,) = build(dedent(source), "dags/example.py")

    assert dag.functions["double"](None, 21) == 42


DATACLASS = """
from __future__ import annotations
from dataclasses import dataclass
from typing import ClassVar, get_type_hints

@dataclass
class Table:
    KIND: ClassVar[str] = "table"
    name: str = "flights"
    after: Table | None = None

assert get_type_hints(Table)["after"] == Table | None
"""


def test_a_file_may_have_dataclasses_whose_annotations_are_texts() -> None:
    assert ids(f"{DATACLASS}\nfrom tidegate import Dag\nDag(Table().name)\n") == ["flights"]


def test_the_module_of_a_file_is_known_only_while_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    former = ModuleType("dagfile.former")
    monkeypatch.setitem(sys.modules, "dagfile.former", former)
    text = "import sys\nassert sys.modules[__name__].__dict__ is globals()\n"

    ids(text, "dags/example.py")
    ids(text, "dags/former.py")
    ids(f"{text}del sys.modules[__name__]\n", "dags/hidden.py")

    assert sys.modules["dagfile.former"] is former
    assert not {"dagfile.example", "dagfile.hidden"} & set(sys.modules)


def test_a_file_knows_its_own_place_and_is_not_the_main_program() -> None:
    source = """
        from tidegate import Dag
        Dag("d", description=f"{__file__} {__name__}")
    """

    (dag,) = build(dedent(source), "/dags/daily.py")

    assert dag.spec().description == "/dags/daily.py dagfile.daily"


def test_importing_another_dag_file_does_not_take_its_dags_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sibling_of_example.py").write_text(
        dedent("""
            from tidegate import Dag, Dataset
            flights = Dataset("lake://flights")
            Dag("theirs", schedule=flights)
            def factory(name):
                return Dag(name)
        """)
    )
    monkeypatch.syspath_prepend(tmp_path)
    source = """
        from sibling_of_example import factory, flights
        from tidegate import Dag
        Dag("mine", schedule=flights)
        factory("also_mine")
    """

    try:
        assert ids(source) == ["mine", "also_mine"]
    finally:
        del sys.modules["sibling_of_example"]


def test_a_dag_id_used_twice_in_a_file_is_refused_at_the_second_one() -> None:
    source = 'from tidegate import Dag\nDag("d")\nDag("d")\n'

    with pytest.raises(DagError, match="dag_id 'd' is used twice in this file") as caught:
        build(source, "dags/example.py")

    assert line_of(caught.value, "dags/example.py") == 3


def test_a_cycle_outside_a_with_block_is_found_too() -> None:
    source = 'from tidegate import Dag\ndag = Dag("d")\na, b = dag.empty("a"), dag.empty("b")\na >> b\nb >> a\n'

    with pytest.raises(DagError, match="cycle: a >> b >> a") as caught:
        build(source, "dags/example.py")

    assert caught.value.place == ("dags/example.py", 5)


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("from tidegate import Dag\n\nDag('two words')", 3),
        ("from tidegate import Dag\ndag = Dag('d')\ndag.empty('t',\n  retries=-1)", 3),
        ("from tidegate import Dag\nwith Dag('d') as dag:\n  @dag.task\n  def t(spark): ...\n", 3),
        ("from tidegate import Dataset\na = b = Dataset('x')\n\na and b", 4),
        ("from tidegate import Dag\nDag('a').empty('x') >> Dag('b').empty('y')", 2),
    ],
)
def test_a_mistake_is_raised_at_the_authors_line(source: str, line: int) -> None:
    with pytest.raises(DagError) as caught:
        build(source, "dags/example.py")

    assert line_of(caught.value, "dags/example.py") == line


def test_future_imports_of_the_daemon_do_not_leak_into_a_file() -> None:
    source = """
        from tidegate import Dag
        def f(x: undefined_name): ...
    """

    with pytest.raises(NameError):
        ids(source)


def test_dags_built_outside_a_collection_are_free() -> None:
    Dag("free")

    Dag("free")


def test_a_collection_without_a_file_takes_every_dag() -> None:
    with collect_dags() as dags:
        Dag("one")
        Dag("two")

    assert list(dags) == ["one", "two"]


def test_a_collection_ends_with_its_block() -> None:
    with collect_dags() as dags:
        pass

    Dag("late")

    assert not dags


WRONG = """
from datetime import timedelta
from tidegate import Dag, Dataset
with Dag("one", schedule="whenever", colour="red") as dag:
    first = dag.command("first", ["true"], retry_delay=5, trigger_rule="never", colour="red")
    second = dag.command("second", "true")
    third = dag.sql("no name", "SELECT 1")
    @dag.task(retries=-1)
    def fourth(spark, run): ...
    @dag.task
    def fifth(): ...
    first >> second >> third >> fourth >> dag.submit("sixth", "x.py", args=1)
with Dag("two", default_args={"retry_delay": 5}) as dag:
    a, b = dag.empty("a", outlets="lake://x"), dag.empty("b")
    a >> b >> a
Dag("one")
Dag("bad name")
Dag("three", schedule=Dataset("no uri"))
Dag("unreached", schedule=1)
"""


MISTAKES = [
    (4, "DAG 'one': unknown argument colour"),
    (4, "DAG 'one': cron 'whenever' has 1 fields"),
    (5, "DAG 'one', task 'first': retry_delay must be a timedelta"),
    (5, "DAG 'one', task 'first': 'never' is no trigger_rule"),
    (5, "DAG 'one', task 'first': unknown option colour"),
    (6, "DAG 'one', task 'second': argv must be a list of strings"),
    (7, "DAG 'one': task_id 'no name': a name is"),
    (8, "DAG 'one', task 'fourth': retries: expected `int` >= 0"),
    (10, "DAG 'one', task 'fifth': the function is called with (spark, run)"),
    (12, "DAG 'one', task 'sixth': args must be a list of strings"),
    (13, "DAG 'two': default_args: retry_delay must be a timedelta"),
    (14, "DAG 'two', task 'a': outlets is a list of datasets"),
    (15, "DAG 'two': its tasks form a cycle: a >> b >> a"),
    (16, "dag_id 'one' is used twice in this file"),
    (17, "dag_id 'bad name': a name is"),
    (18, "Dataset('no uri'): a URI is"),
]


def test_all_mistakes_are_noted_as_far_as_the_file_can_go_on() -> None:
    with note_mistakes("dags/wrong.py") as noted:
        build(WRONG, "dags/wrong.py")

    assert [(each.place, str(each)) for each in noted] == [(("dags/wrong.py", line), ANY) for line, _ in MISTAKES]
    assert [str(each) for each, (_, begins) in zip(noted, MISTAKES, strict=True) if not str(each).startswith(begins)] == []


def test_a_file_without_mistakes_has_none_to_note() -> None:
    with note_mistakes("dags/good.py") as noted:
        build("from tidegate import Dag\nwith Dag('d') as dag:\n    dag.empty('a') >> dag.empty('b')\n", "dags/good.py")

    assert noted == []
