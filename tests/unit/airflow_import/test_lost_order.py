"""What the comparison of a file with its translation finds, and what the survey of real files calls wrong."""

import ast

import pytest

from tests.airflow_survey.verdict import verdict
from tidegate.daemon.airflow_import.lost_order import lost_edges

HEAD = """
with DAG("d") as dag:
    a, b = BashOperator(task_id="a"), BashOperator(task_id="b")
    c = BashOperator(task_id="c")
"""
WRITTEN = """
with Dag("d") as dag:
    a, b = dag.command("a", []), dag.command("b", [])
    c = dag.command("c", [])
"""


def lost(source: str, written: str) -> set[tuple[str, str]]:
    return {(edge.before, edge.after) for edge in lost_edges(ast.parse(HEAD + source), ast.parse(WRITTEN + written))}


@pytest.mark.parametrize(
    ("source", "written", "missing"),
    [
        ("a >> b", "a >> b", set()),
        ("a >> b", "", {("a", "b")}),
        ("a >> b >> c", "a >> b", {("b", "c")}),
        ("a >> [b, c]", "a >> b", {("a", "c")}),
        ("b << a", "a >> b", set()),
        ("b << a", "b >> a", {("a", "b")}),
        ("c.set_upstream([a, b])", "a >> c", {("b", "c")}),
        ("a.set_downstream(b)", "", {("a", "b")}),
        ("chain(a, [b, c])", "a >> b", {("a", "c")}),
        ("chain(*[a, b, c])", "a >> b", {("b", "c")}),
        ("cross_downstream([a, b], [c])", "a >> c", {("b", "c")}),
        ("xs = [a, b]\nxs >> c", "a >> c", {("b", "c")}),
        ("PythonOperator(task_id='x', op_args=[a.output])", "x = dag.command('x', [])", {("a", "x")}),
        (
            "for n in 'xy':\n    a >> BashOperator(task_id=f'{n}_t')",
            "for n in 'xy':\n    dag.command(f'{n}_t', [])",
            {("a", ".+_t")},
        ),
    ],
)
def test_an_edge_that_the_translation_lost_is_found(source: str, written: str, missing: set[tuple[str, str]]) -> None:
    assert lost(source, written) == missing


def document(written: str, *left_out: int) -> dict[str, object]:
    entries = [{"line": line, "end_line": line, "what": "it", "why": "why", "instead": "do"} for line in left_out]
    return {"problem": None, "text": WRITTEN + written, "left_out": entries}


def checked(*upstream: str) -> dict[str, object]:
    tasks = [{"task_id": name, "argv": ["x"]} for name in "ab"] + [{"task_id": "c", "argv": ["false"], "upstream": upstream}]
    return {"problem": None, "dags": [{"dag_id": "d", "tasks": tasks}]}


def test_the_survey_calls_an_edge_wrong_that_is_neither_kept_nor_listed() -> None:
    source = HEAD + "a >> c"

    kept = verdict("f.py", source, document("a >> c", 4), checked("a"))
    listed = verdict("f.py", source, document("", 4, 5), checked())
    lost = verdict("f.py", source, document("", 4), checked())
    added = verdict("f.py", source, document("a >> c", 4), checked("a", "b"))
    stub = verdict("f.py", source, document("a >> c"), checked("a"))

    assert (kept.edges["kept"], kept.wrong, kept.tasks) == (1, [], {"translated": 2, "stub": 1})
    assert (listed.edges["listed"], listed.wrong) == (1, [])
    assert (lost.edges["lost"], lost.wrong) == (1, ["f.py:5: a >> c"])
    assert stub.wrong == ["f.py:4: c fails, and is not listed"]
    assert added.wrong == ["f.py: b >> c is not in the source"]
