"""What a function of a DAG file gets, and what it may return."""

from typing import Any

import pytest

from tests.shapes import NOW
from tidegate.schemas.authoring.dataset import Dataset
from tidegate.schemas.run import NONE_CHOSEN, Choice, Outlets, Run, RunContext, follow, skip_rest

A, B = Dataset("s://a"), Dataset("s://b")

CONTEXT = RunContext(dag_id="d", run_id="r1", run_type="manual", run_after=NOW, params={"day": 1}, results={"a": 1}, task_id="t")


def test_an_outlet_is_found_by_its_dataset_or_its_uri() -> None:
    outlets = Outlets((A.uri, B.uri), "t")

    outlets[A].extra["rows"] = 12

    assert (outlets[A.uri].uri, outlets["s://a"].extra, outlets[B].extra) == ("s://a", {"rows": 12}, {})
    assert (list(outlets), len(outlets)) == (["s://a", "s://b"], 2)


@pytest.mark.parametrize(("uris", "known"), [((), "none"), (("s://b", "s://c"), "s://b, s://c")])
def test_a_task_has_no_other_outlets(uris: tuple[str, ...], known: str) -> None:
    with pytest.raises(KeyError) as raised:
        Outlets(uris, "t")[A]

    assert raised.value.args == (f"task 't' has no outlet 's://a'; its outlets are: {known}",)


@pytest.mark.parametrize(("results", "found"), [(None, {"a": 1}), ({}, {}), ({"b": 2}, {"b": 2})])
def test_a_run_has_the_facts_of_its_context(results: dict[str, Any] | None, found: dict[str, Any]) -> None:
    run, other = Run.of(CONTEXT, (A.uri,), results), Run.of(CONTEXT, ())

    run.publish(B)
    run.publish("s://c", {"rows": 3})

    assert (run.dag_id, run.params, run.results, list(run.outlets)) == ("d", {"day": 1}, found, ["s://a"])
    assert (run.published, other.published) == ([("s://b", {}), ("s://c", {"rows": 3})], [])
    with pytest.raises(KeyError, match="task 't' has no outlet"):
        other.outlets[A]


def test_a_branching_task_chooses_by_what_it_returns() -> None:
    assert follow("a", "b") == Choice(("a", "b"))
    assert follow() == Choice((NONE_CHOSEN,))
    assert skip_rest() == Choice(())


def test_a_choice_is_of_ids() -> None:
    with pytest.raises(TypeError) as raised:
        follow("a", 3)  # type: ignore[arg-type]  # mypy would refuse it, too

    assert str(raised.value) == "follow: 3 is no task id; write the id as a text, like follow('load')"
