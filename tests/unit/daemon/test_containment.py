"""Batches are bisected in order, and errors without a message at fault pass."""

from collections.abc import Sequence
from typing import Any, cast
from uuid import uuid4

import asyncpg
import pytest
from structlog.testing import capture_logs

from tidegate.daemon import containment
from tidegate.daemon.containment import MAX_RACES, apply_holding, bisect, substitute
from tidegate.daemon.engine import Batch
from tidegate.schemas.dag import DagSpec, ImportProblem, ParsedFile
from tidegate.schemas.error import DagFaultError, Faults, InvariantError, TooSlowError, UnavailableError, described
from tidegate.schemas.message import DatasetUpdateDeferred
from tidegate.schemas.queries import holds
from tidegate.schemas.wire.event import DatasetUpdated, TaskFinished

SLOW = TooSlowError("canceling statement", server="Postgres")


class Work:
    """Acts on numbers; records what succeeded and what was contained."""

    def __init__(self, bad: Sequence[int] = (), error: Exception | None = None, most: int = 1000) -> None:
        self.bad, self.error, self.most = bad, error or KeyError("surprise"), most
        self.done: list[Any] = []

    async def act(self, items: Sequence[int]) -> int:
        if len(items) > self.most:
            raise SLOW
        if set(items) & set(self.bad):
            raise self.error
        self.done += items
        return len(items)

    async def contain(self, items: Sequence[int], error: Exception) -> int:
        self.done.append((*items, error))
        return 0

    async def __call__(self, count: int) -> list[int]:
        return await bisect(range(count), self.act, self.contain)


@pytest.mark.parametrize(
    "error",
    [
        asyncpg.InsufficientPrivilegeError("permission denied for table dag_run"),
        UnavailableError("Postgres is away", server="Postgres"),
        MemoryError(),
    ],
)
async def test_errors_without_a_message_at_fault_cost_no_message(error: Exception) -> None:
    work = Work([1], error)

    with pytest.raises(type(error)):
        await work(4)

    assert work.done == []


async def test_all_items_are_acted_on_in_order_and_the_ones_at_fault_are_contained_alone() -> None:
    work = Work([0, 5, 6])

    with capture_logs() as logs:
        results = await work(10)

    assert [item if isinstance(item, int) else item[0] for item in work.done] == list(range(10))
    assert [item for item in work.done if not isinstance(item, int)] == [(bad, work.error) for bad in work.bad]
    assert sum(results) == 7
    assert [line["event"] for line in logs] == ["batch_bisected"]


async def test_a_batch_that_is_too_slow_is_halved_until_it_is_fast_enough() -> None:
    work = Work(most=3)

    results = await work(10)

    assert work.done == list(range(10))
    assert max(results) == 3


async def test_one_item_that_is_too_slow_is_an_outage() -> None:
    work = Work(most=0)

    with pytest.raises(UnavailableError):
        await work(4)

    assert work.done == []


async def test_a_failing_last_resort_is_raised_with_what_was_done_before_it() -> None:
    work = Work([2])

    async def fails(_: Sequence[int], error: Exception) -> int:
        raise ValueError("nothing helps") from error

    with capture_logs() as logs, pytest.raises(ValueError, match="nothing helps"):
        await bisect(range(4), work.act, fails)

    assert work.done == [0, 1]
    assert [line["event"] for line in logs] == ["batch_bisected"]


@pytest.mark.parametrize(("is_new", "applications"), [(False, MAX_RACES + 2), (True, 12)])
async def test_a_decision_that_reads_a_held_dag_is_given_up(
    monkeypatch: pytest.MonkeyPatch, is_new: bool, applications: int
) -> None:
    """The first decision is repeated with versions that are read again; then each counts, unless it held a DAG."""
    applied = 0

    async def apply(*_: Any) -> None:
        nonlocal applied
        applied += 1
        if applied == 12:
            raise UnavailableError("Postgres is away", server="Postgres")
        raise DagFaultError({"a": "a test"})

    class Known:
        async def run(self, read: Any, *_: Any) -> Any:
            if read is holds.versions_of:
                return {"a": 1}
            return ["a"] if is_new else []

        def clear_memory(self) -> None:
            """Nothing is remembered."""

    monkeypatch.setattr(containment, "apply", apply)
    with pytest.raises(UnavailableError if is_new else InvariantError):
        await apply_holding(cast(Any, Known()), Batch(messages=[]))

    assert applied == applications


def test_what_a_message_brings_is_kept_without_its_decision() -> None:
    update = DatasetUpdated(uri="lake://a")
    broken = ImportProblem(reason="SyntaxError", line=3)
    file = ParsedFile(path="a.py", digest="d", dags=(DagSpec(dag_id="a"),))
    archive = ParsedFile(
        path="a.zip",
        digest="d",
        members=(
            ParsedFile(path="a.zip/a.py", digest="d", dags=(DagSpec(dag_id="b"),)),
            ParsedFile(path="a.zip/b.py", digest="d", problem=broken),
        ),
    )
    at_fault = KeyError("surprise")

    problem = ImportProblem(reason="Tidegate cannot take up the file: KeyError: 'surprise'", line=None)
    assert substitute(update, at_fault) == DatasetUpdateDeferred(update=update)
    assert substitute(file, at_fault) == ParsedFile(path="a.py", digest="d", problem=problem)
    assert substitute(archive, at_fault) == ParsedFile(
        path="a.zip",
        digest="d",
        problem=problem,
        members=(
            ParsedFile(path="a.zip/a.py", digest="d", problem=problem),
            ParsedFile(path="a.zip/b.py", digest="d", problem=broken),
        ),
    )
    assert substitute(TaskFinished(submission_id=uuid4(), outcome="failed"), at_fault) is None


def test_the_faults_of_all_dags_are_raised_together() -> None:
    decided = []

    def decide() -> None:
        with Faults() as faults:
            for dag_id in "abc":
                with faults.of(dag_id):
                    if dag_id != "b":
                        raise KeyError(dag_id)
                    decided.append(dag_id)

    with pytest.raises(DagFaultError) as caught:
        decide()

    assert caught.value.reasons == {dag_id: f"a decision failed: KeyError: '{dag_id}'" for dag_id in "ac"}
    assert decided == ["b"]


def test_another_error_of_the_block_is_not_replaced() -> None:
    def decide() -> None:
        with Faults() as faults:
            with faults.of("a"):
                raise KeyError
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        decide()


def test_the_description_of_an_error_can_be_stored() -> None:
    assert described(ValueError("a\0b\ud800c\nd")) == r"ValueError: a\0b\ud800c d"
    assert len(described(ValueError("\ud800" * 1000))) == 300
