"""The serialised form of a DAG: conditions, round trips, and what it refuses."""

import msgspec
import pytest

from tests.acceptance.pipeline import TASKS
from tests.shapes import decode_spec
from tidegate.schemas.conditions.condition import AllOf, AnyOf, Condition, DatasetRef, dataset_uris, met_by_uris
from tidegate.schemas.dag import (
    BACKENDS,
    CommandTask,
    DagSpec,
    EmptyTask,
    FunctionTask,
    SqlTask,
    SubmitTask,
    archive_of,
    contains_nul,
    encode_spec,
    kind_of,
)

A, B, C = DatasetRef("lake://a"), DatasetRef("lake://b"), DatasetRef("lake://c")
BOTH, EITHER, MIXED = AllOf((A, B)), AnyOf((A, B)), AllOf((A, AnyOf((B, C))))

TRUTH = [
    (A, "", False),
    (A, "a", True),
    (A, "b", False),
    (BOTH, "", False),
    (BOTH, "a", False),
    (BOTH, "b", False),
    (BOTH, "ab", True),
    (EITHER, "", False),
    (EITHER, "a", True),
    (EITHER, "b", True),
    (EITHER, "ab", True),
    (MIXED, "a", False),
    (MIXED, "bc", False),
    (MIXED, "ab", True),
    (MIXED, "ac", True),
    (MIXED, "abc", True),
]

EVERY_KIND = DagSpec(
    dag_id="every.kind-1",
    description="one task of each kind",
    schedule=MIXED,
    max_active_runs=3,
    tags=("nightly",),
    tasks=(
        EmptyTask(task_id="start"),
        FunctionTask(task_id="join", upstream=("start",), retries=2, retry_delay_s=1.5),
        SqlTask(task_id="report", upstream=("join",), sql="SELECT 1"),
        SubmitTask(
            task_id="publish", application="publish.py", args=("--run", "{{ run_id }}"), conf={"spark.executor.memory": "1g"}
        ),
        CommandTask(task_id="notify", argv=("echo", "done"), env={"WHO": "all"}, outlets=("lake://d",)),
    ),
)


@pytest.mark.parametrize(("condition", "pending", "expected"), TRUTH)
def test_a_condition_holds_exactly_when_its_truth_table_says(condition: Condition, pending: str, expected: bool) -> None:
    uris = {f"lake://{letter}" for letter in pending}

    assert met_by_uris(condition, uris) is expected


@pytest.mark.parametrize("condition", [A, BOTH, EITHER, MIXED])
def test_a_condition_survives_serialisation(condition: Condition) -> None:
    spec = DagSpec(dag_id="d", schedule=condition)

    again = decode_spec(encode_spec(spec))

    assert again.schedule == condition


def test_the_leaves_of_a_condition_are_the_uris_it_mentions() -> None:
    assert dataset_uris(MIXED) == {"lake://a", "lake://b", "lake://c"}


def test_a_dag_with_every_kind_of_task_survives_serialisation() -> None:
    assert decode_spec(encode_spec(EVERY_KIND)) == EVERY_KIND


def test_every_kind_of_task_has_a_backend_but_the_one_that_is_nothing_to_run() -> None:
    kinds = {kind_of(task) for task in EVERY_KIND.tasks}

    assert kinds - BACKENDS.keys() == {"empty"}
    assert BACKENDS.keys() <= kinds


def test_every_backend_runs_a_task_of_the_acceptance_tests() -> None:
    assert TASKS.keys() == set(BACKENDS.values())


def test_the_same_dag_is_always_the_same_bytes() -> None:
    other = msgspec.convert(msgspec.to_builtins(EVERY_KIND), DagSpec)

    assert encode_spec(other) == encode_spec(EVERY_KIND)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"dag_id": ""}', "length >= 1"),
        ('{"dag_id": "two words"}', "matching regex"),
        ('{"dag_id": "line\\n"}', "matching regex"),
        ('{"dag_id": "d", "colour": 1}', "unknown field"),
        ('{"dag_id": "d", "max_active_runs": 0}', ">= 1"),
        ('{"dag_id": "d", "schedule": {"op": "none_of", "of": []}}', "Invalid value 'none_of'"),
        ('{"dag_id": "d", "schedule": {"op": "all_of", "of": []}}', "length >= 1"),
        ('{"dag_id": "d", "schedule": {"op": "dataset", "uri": "lake://a b"}}', "matching regex"),
        ('{"dag_id": "d", "schedule": {"op": "dataset", "uri": "lake://a\\n"}}', "matching regex"),
        ('{"dag_id": "d", "tasks": [{"kind": "shell", "task_id": "t"}]}', "Invalid value 'shell'"),
        ('{"dag_id": "d", "tasks": [{"kind": "empty", "task_id": "t", "retries": -1}]}', ">= 0"),
        ('{"dag_id": "d", "tasks": [{"kind": "command", "task_id": "t", "argv": []}]}', "length >= 1"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_reason(text: str, complaint: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=complaint):
        decode_spec(text)


@pytest.mark.parametrize(
    ("path", "archive"),
    [
        ("team.zip/flights.py", "team.zip"),
        ("etl/team.zip/lib/flights.py", "etl/team.zip"),
        ("outer.zip/inner.zip/flights.py", "outer.zip"),
        ("etl/flights.py", None),
        ("team.zip", None),
    ],
)
def test_a_dag_file_may_be_in_an_archive(path: str, archive: str | None) -> None:
    assert archive_of(path) == archive


@pytest.mark.parametrize(
    ("text", "has_one"), [("a\0b", True), ("a\\\0", True), ("a\\u0000", False), ("u0000", False), ("ab", False)], ids=repr
)
def test_a_nul_is_found_in_json(text: str, *, has_one: bool) -> None:
    assert contains_nul(msgspec.json.encode({"text": text})) is has_one
