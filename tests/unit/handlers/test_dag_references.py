"""The datasets and patterns that a DAG refers to, and what is read and locked for them."""

import pytest

from tests.shapes import NOW, A, B, spec, task
from tests.unit.handlers.test_dag_file_changed import parsed, stored
from tidegate.handlers.dag_file_changed import changed_patterns, may_backfill, named_uris, references_of
from tidegate.schemas.conditions.condition import AllOf, AnyOf, Condition, PatternRef
from tidegate.schemas.dag import DagSpec, FunctionTask
from tidegate.schemas.effect.dag import SetReferences

IDS = {"s://a": 1, "s://b": 2, "s://x/1": 3, "s://x/2": 4, "s://x/2/part": 5, "t://x/1": 6}
ANY_X = PatternRef("s://x/*")


@pytest.mark.parametrize(
    ("schedule", "consumed", "patterns"),
    [
        pytest.param(None, (), (), id="no condition"),
        pytest.param(AllOf((B, A, B)), (1, 2), (), id="datasets by name, each once"),
        pytest.param(ANY_X, (3, 4), ("s://x/*",), id="all that a pattern matches"),
        pytest.param(AnyOf((PatternRef("s://**/part"), ANY_X)), (3, 4, 5), ("s://**/part", "s://x/*"), id="two patterns"),
        pytest.param(AnyOf((A, ANY_X, PatternRef("s://a*"))), (1, 3, 4), ("s://a*", "s://x/*"), id="names and patterns"),
        pytest.param(PatternRef("s://new/*"), (), ("s://new/*",), id="a pattern that matches nothing yet"),
    ],
)
def test_a_dag_refers_to_the_datasets_that_it_consumes(
    schedule: Condition | None, consumed: tuple[int, ...], patterns: tuple[str, ...]
) -> None:
    assert references_of(spec("t", schedule=schedule), IDS) == SetReferences("d", consumed, (), patterns)


def test_a_dag_refers_to_the_datasets_that_its_tasks_produce() -> None:
    dag = spec(task("t", outlets=("s://b", "s://a")), task("u", outlets=("s://a",)), task("v"))

    assert references_of(dag, IDS).produced == (("t", 1), ("t", 2), ("u", 1))
    assert named_uris(dag) == {"s://a", "s://b"}
    assert named_uris(spec("t", schedule=AnyOf((A, ANY_X)))) == {"s://a"}


def test_new_references_are_backfilled_where_a_dag_wants_what_it_missed() -> None:
    found = references_of(spec("t", schedule=A, missed="all", start_date=NOW), IDS)

    assert (found.backfills, found.backfill_since) == (True, NOW)


@pytest.mark.parametrize(
    ("dag", "before", "backfills"),
    [
        pytest.param(spec("t", schedule=A, missed="all"), None, True, id="a new DAG"),
        pytest.param(spec("t", schedule=A, missed="all"), spec("t", schedule=B, missed="all"), True, id="a changed DAG"),
        pytest.param(spec("t", schedule=A, missed="all"), spec("t", schedule=A, missed="all"), False, id="an unchanged DAG"),
        pytest.param(spec("u", schedule=A, missed="all"), spec("t", schedule=AllOf((A, B))), False, id="it has no new input"),
        pytest.param(spec("t", schedule=ANY_X, missed="all"), spec("t", schedule=A), True, id="it has a new pattern"),
        pytest.param(spec("t", schedule=A, missed="all"), spec("t"), True, id="it had no input"),
        pytest.param(spec("t", missed="all"), None, False, id="no condition"),
        pytest.param(spec("t", schedule=A), None, False, id="it does not want what it missed"),
    ],
)
def test_the_ledger_is_locked_only_where_it_may_be_read(dag: DagSpec, before: DagSpec | None, backfills: bool) -> None:
    assert may_backfill(dag, {} if before is None else {"d": stored(before)}) == backfills


@pytest.mark.parametrize(
    ("dag", "before", "read"),
    [
        pytest.param(spec("t", schedule=PatternRef("s://*")), None, {"s://*"}, id="a new DAG"),
        pytest.param(spec("t", schedule=PatternRef("s://*")), spec("t", schedule=A), {"s://*"}, id="a changed DAG"),
        pytest.param(
            spec("t", schedule=PatternRef("s://*")), spec("t", schedule=PatternRef("s://*")), set(), id="an unchanged DAG"
        ),
        pytest.param(spec("t", schedule=A), spec("t", schedule=PatternRef("s://*")), set(), id="no pattern any more"),
        pytest.param(
            *[spec(FunctionTask(task_id="t"), schedule=PatternRef("s://*"))] * 2, set(), id="an unchanged DAG with a function"
        ),
    ],
)
def test_datasets_are_matched_only_for_a_new_version(dag: DagSpec, before: DagSpec | None, read: set[str]) -> None:
    file = parsed("a.py", dag)

    assert changed_patterns([file], {} if before is None else {"d": stored(before)}) == read
