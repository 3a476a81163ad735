"""A file system that does not answer: an outage after a while, and a bounded number of threads."""

import threading
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from tests.waiting import until
from tidegate.daemon.spark import spool_threads
from tidegate.daemon.spark.spool_threads import THREADS, SpoolThreads
from tidegate.schemas.error import SPOOL, UnavailableError


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Until it is set, calls hang."""
    monkeypatch.setattr(spool_threads, "LIMIT_S", 0.02)
    event = threading.Event()
    yield event
    event.set()


def _have_begun(began: Sequence[int], calls: int) -> bool:
    return len(began) >= calls


async def test_a_spool_that_hangs_is_an_outage_until_it_answers(answer: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    threads, began = SpoolThreads(Path("/spool")), list[int]()

    def look() -> int:
        began.append(1)
        answer.wait()
        return len(began)

    for calls, problem in enumerate(["has not answered for"] * THREADS + [f"{THREADS} calls hang"] * 2, start=1):
        with pytest.raises(UnavailableError, match=problem) as raised:
            await threads.run(look)
        assert raised.value.server == SPOOL
        # A call may be given up before its thread begins, and hangs only then.
        await until(partial(_have_begun, began, min(calls, THREADS)), 60)
    hung = len(began)
    answer.set()
    monkeypatch.setattr(spool_threads, "LIMIT_S", 60.0)
    await until(lambda: not any(call.is_running for call in threads._hanging), 60)

    assert (hung, await threads.run(look)) == (THREADS, THREADS + 1)


async def test_an_error_of_the_file_system_is_an_outage() -> None:
    with pytest.raises(UnavailableError, match=r"the spool /spool cannot be used: .*No such file"):
        await SpoolThreads(Path("/spool")).run(lambda: Path("/spool/missing").read_bytes())
