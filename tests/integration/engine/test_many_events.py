"""The events of a run that are too many for its submissions: Postgres → a file → the runner."""

import errno
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from tests.integration.engine.contexts import context_of
from tests.integration.engine.world import World
from tests.shapes import spec
from tidegate.daemon.context import Context
from tidegate.daemon.duties.run_events import with_events
from tidegate.daemon.duties.submission_specs import submission_specs
from tidegate.daemon.settings import Settings
from tidegate.daemon.spark import event_file
from tidegate.daemon.spark.contract import SubmissionSpec
from tidegate.daemon.spark.regular_file import DamagedError
from tidegate.daemon.spark.runner_backend import RunnerBackend
from tidegate.daemon.spark.spool import Spool
from tidegate.schemas.conditions.condition import DatasetRef
from tidegate.schemas.error import NotStartedError
from tidegate.schemas.queries import sources, submissions
from tidegate.schemas.wire.event import DatasetUpdated


def context(world: World, spool: Path) -> Context:
    return context_of(world.database, Settings(postgres_dsn="", kafka_servers="", host="here", spool_dir=str(spool)))


async def submission(world: World, events: int, text: str = "") -> SubmissionSpec:
    """Of the task of a run with this number of events."""
    await world.file(spec("t", schedule=DatasetRef("s://a")))
    await world.tell(*(DatasetUpdated(uri="s://a", extra={"n": number, "text": text}) for number in range(events)))
    await world.admit()
    claims = await world.database.run(submissions.claim_intents, owner=uuid4(), host="here", backend="command", limit=1)
    claims += await world.database.run(submissions.claim_intents, owner=uuid4(), host="here", backend="spark-connect", limit=1)
    (found,) = await world.database.run(submission_specs, claims)
    assert isinstance(found, SubmissionSpec)
    return found


async def test_the_runner_reads_many_events_from_a_file(world: World, tmp_path: Path) -> None:
    many = 2 * sources.MAX_EVENTS + 1
    found = await submission(world, many)
    daemon = context(world, tmp_path)
    spool = Spool(tmp_path, found.submission_id)

    async with with_events(daemon, found) as complete:
        RunnerBackend("command", daemon.settings)._prepare(spool, complete)

    job = spool.job()
    assert job is not None
    read = event_file.complete(spool, job)
    assert (found.run.events, job.spec.run.events) == ((), ())
    assert [event.extra["n"] for event in read.spec.run.events] == list(range(many))
    assert sorted(path.name for path in spool.path.iterdir()) == ["events.jsonl", "spec.json"]
    assert [path.name for path in spool.work.parent.iterdir()] == ["files"]


async def test_few_events_with_much_extra_are_read_from_a_file(world: World, tmp_path: Path) -> None:
    found = await submission(world, 2, "x" * (sources.MAX_EXTRA_BYTES // 2))

    async with with_events(context(world, tmp_path), found) as complete:
        assert complete.events_file is not None
        stored = Path(complete.events_file).read_bytes().splitlines()
    assert (found.run.events, len(stored)) == ((), 2)


async def test_few_events_are_in_the_submission(world: World, tmp_path: Path) -> None:
    found = await submission(world, sources.MAX_EVENTS)

    async with with_events(context(world, tmp_path), found) as complete:
        assert complete is found
    assert [event.extra["n"] for event in found.run.events] == list(range(sources.MAX_EVENTS))


async def test_with_a_spool_that_cannot_be_written_nothing_was_started(world: World, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    found = msgspec.structs.replace(await submission(world, 1), events_of=1)

    with pytest.raises(NotStartedError, match="the events of a run cannot be stored"):
        async with with_events(context(world, tmp_path / "file"), found):
            raise AssertionError


async def test_an_attempt_whose_events_are_gone_is_damaged(world: World, tmp_path: Path) -> None:
    found = msgspec.structs.replace(await submission(world, 1), events_of=1)
    spool = Spool(tmp_path, found.submission_id)
    RunnerBackend("command", context(world, tmp_path).settings)._prepare(spool, found)
    job = spool.job()
    assert job is not None

    with pytest.raises(DamagedError, match=r"events\.jsonl cannot be read"):
        event_file.complete(spool, job)


async def test_many_large_events_are_read_page_by_page_outside_a_transaction(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "PAGE_BYTES", 3000)
    found = await submission(world, 120, "x" * 1000)
    daemon, sizes = context(world, tmp_path), list[int]()
    append = event_file.append

    def noting(path: Path, events: Sequence[sources.StoredEvent]) -> None:
        assert threading.current_thread() is not threading.main_thread()
        sizes.append(sum(len(bytes(event.extra)) for event in events))
        append(path, events)

    async def refused(*_: Any, **__: Any) -> None:
        raise AssertionError("a transaction")

    monkeypatch.setattr(event_file, "append", noting)
    monkeypatch.setattr(daemon.database, "run", refused)
    async with with_events(daemon, found) as complete:
        lines = Path(complete.events_file).read_bytes().splitlines()

    assert [msgspec.json.decode(line)["extra"]["n"] for line in lines] == list(range(120))
    assert len(sizes) == 60
    assert max(sizes) <= 3000


async def test_a_full_spool_is_no_outage_of_postgres(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = await submission(world, 2, "x" * (sources.MAX_EXTRA_BYTES // 2))
    daemon = context(world, tmp_path)

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(event_file, "append", full)

    with pytest.raises(NotStartedError, match="No space left") as caught:
        async with with_events(daemon, found):
            raise AssertionError
    assert caught.value.server == "the spool"
    assert [path.name for path in tmp_path.rglob("events*")] == []


async def test_an_error_of_the_submit_is_not_one_of_the_events(world: World, tmp_path: Path) -> None:
    """The submit may have started something before it failed."""
    found = await submission(world, 2, "x" * (sources.MAX_EXTRA_BYTES // 2))

    with pytest.raises(OSError, match="of the submit"):
        async with with_events(context(world, tmp_path), found):
            raise OSError(errno.ENOSPC, "of the submit")
