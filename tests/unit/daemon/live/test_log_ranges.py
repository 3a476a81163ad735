"""A web process has one request to Kafka in flight, and keeps its answer for all others."""

from collections.abc import Collection, Mapping

import anyio
import pytest
from anyio import wait_all_tasks_blocked

from tidegate.daemon.live import log_ranges
from tidegate.daemon.live.log_ranges import KEPT_S, LogRanges
from tidegate.events.source import Bounds, Partition
from tidegate.schemas.error import RequestError, UnavailableError

FIRST, SECOND = Partition("a", 0), Partition("a", 1)
RANGE = Bounds(0, 7)


class Asked:
    """What is asked, by a clock that a test sets. An answer comes once it is let pass; `error` comes instead of one."""

    def __init__(self) -> None:
        self.now = 0.0
        self.asked: list[set[Partition]] = []
        self.passes = anyio.Event()
        self.error: Exception | None = None
        self.ranges = LogRanges(self._ask, lambda: self.now)

    async def _ask(self, partitions: Collection[Partition]) -> Mapping[Partition, Bounds]:
        self.asked.append(set(partitions))
        await self.passes.wait()
        if self.error is not None:
            raise self.error
        return dict.fromkeys(partitions, RANGE)

    async def fails(self, *partitions: Partition) -> str:
        with pytest.raises((UnavailableError, RequestError)) as error:
            await self.ranges.of(partitions)
        return str(error.value)


@pytest.fixture
async def asked() -> Asked:
    return Asked()


async def test_requests_at_the_same_time_ask_once_and_the_answer_is_kept(asked: Asked) -> None:
    answers = []

    async def read() -> None:
        answers.append(await asked.ranges.of([FIRST]))

    async with anyio.create_task_group() as tasks:
        for _ in range(100):
            tasks.start_soon(read)
        await wait_all_tasks_blocked()
        asked.passes.set()
    asked.now += KEPT_S - 1
    await read()
    in_time = len(asked.asked)
    asked.now += 1
    await read()

    assert answers == [{FIRST: RANGE}] * 102
    assert (in_time, asked.asked) == (1, [{FIRST}, {FIRST}])


async def test_pages_of_the_list_share_an_answer(asked: Asked) -> None:
    asked.passes.set()
    answers = [await asked.ranges.of([wanted]) for wanted in (FIRST, SECOND, FIRST)]

    assert asked.asked == [{FIRST}, {FIRST, SECOND}]
    assert [wanted in answer for wanted, answer in zip((FIRST, SECOND, FIRST), answers, strict=True)] == [True] * 3


async def test_an_outage_is_an_answer_for_all(asked: Asked) -> None:
    asked.passes.set()
    asked.error = UnavailableError("Kafka is away")
    before = [await asked.fails(FIRST), await asked.fails(SECOND)]
    requests = len(asked.asked)
    asked.error = None
    asked.now += KEPT_S

    assert (before, requests) == (["Kafka is away"] * 2, 1)
    assert (await asked.ranges.of([SECOND]))[SECOND] == RANGE


async def test_a_request_waits_in_bounded_time_and_begins_no_other(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_ranges, "WAIT_S", 0.01)
    late = [await asked.fails(FIRST), await asked.fails(SECOND)]
    requests = len(asked.asked)
    asked.passes.set()
    await wait_all_tasks_blocked()

    assert (late, requests) == ([log_ranges.LATE] * 2, 1)
    assert await asked.ranges.of([FIRST]) == {FIRST: RANGE}
    assert len(asked.asked) == 1


async def test_a_request_that_ends_leaves_the_answer_to_others(asked: Asked) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(asked.ranges.of, [FIRST])
        await wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    asked.passes.set()

    assert (await asked.ranges.of([FIRST]), len(asked.asked)) == ({FIRST: RANGE}, 1)


async def test_a_fault_reaches_its_request_and_is_not_kept(asked: Asked) -> None:
    asked.passes.set()
    asked.error = RequestError("no address")
    fault = await asked.fails(FIRST)
    asked.error = None

    assert (fault, await asked.ranges.of([FIRST])) == ("no address", {FIRST: RANGE})


async def test_the_end_of_the_process_ends_the_request(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as impatient:
        impatient.setattr(log_ranges, "WAIT_S", 0.01)
        await asked.fails(FIRST)
    await asked.ranges.aclose()
    asked.passes.set()

    assert (await asked.ranges.of([FIRST]), len(asked.asked)) == ({FIRST: RANGE}, 2)
