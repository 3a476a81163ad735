"""The status of many attempts in one look: a fault of one spool is a failure of its attempt alone."""

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import UUID, uuid4

import pytest

from tests.unit.spark.test_spool import DEAD, DONE, prepared
from tidegate.daemon.settings import Settings
from tidegate.daemon.spark import launch
from tidegate.daemon.spark.contract import Handle, Phase
from tidegate.daemon.spark.process import identify
from tidegate.daemon.spark.regular_file import DamagedError
from tidegate.daemon.spark.runner_backend import REAPERS, RunnerBackend
from tidegate.daemon.spark.spool import Outcome, Spool, prune
from tidegate.schemas.error import UnavailableError

FAR = 10**12
"""Seconds after 1970 that no calendar has."""


@pytest.fixture
def root() -> Iterator[Path]:
    """On a file system that stores any time."""
    with TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


def backend(root: Path) -> RunnerBackend:
    return RunnerBackend("command", Settings(postgres_dsn="postgresql://unused", kafka_servers="unused:1", spool_dir=str(root)))


def ended(root: Path) -> Spool:
    spool = prepared(root)
    spool.claim(DEAD)
    spool.end(DONE)
    return spool


def with_error(spool: Spool, error: Exception) -> Callable[[Spool], Outcome | None]:
    """`Spool.outcome`, which fails for one spool."""
    read = Spool.outcome

    def outcome(self: Spool) -> Outcome | None:
        if self.submission_id == spool.submission_id:
            raise error
        return read(self)

    return outcome


@pytest.mark.parametrize("seconds", [FAR, -FAR])
async def test_an_impossible_time_is_a_failure_of_this_attempt_alone(root: Path, seconds: int) -> None:
    spoiled, other = prepared(root), ended(root)
    os.utime(spoiled.path / "spec.json", (seconds, seconds))

    statuses = await backend(root).status({spoiled.submission_id: {}, other.submission_id: {}})

    assert statuses[other.submission_id].phase is Phase.SUCCEEDED
    assert statuses[spoiled.submission_id].phase is Phase.FAILED
    assert f"{spoiled.path}/spec.json has an impossible time: {seconds} s since 1970" in statuses[spoiled.submission_id].reason


def test_an_impossible_time_of_a_heartbeat_is_damage(root: Path) -> None:
    spool = prepared(root)
    spool.beat()
    os.utime(spool.path / "heartbeat", (FAR, FAR))

    with pytest.raises(DamagedError, match="heartbeat has an impossible time"):
        spool.silent_s()


def test_spools_with_impossible_times_are_pruned_and_keep_no_other(root: Path) -> None:
    unclaimed, done, folder, old, spared = prepared(root), ended(root), ended(root), ended(root), prepared(root)
    for path in (
        unclaimed.path / "spec.json",
        done.path / "outcome.json",
        folder.path / "outcome.json",
        spared.path / "spec.json",
    ):
        os.utime(path, (FAR, FAR))
    for spool in (unclaimed, done):
        os.utime(spool.path, (0, 0))
    os.utime(folder.path, (FAR, FAR))
    os.utime(old.path / "outcome.json", (0, 0))

    removed = prune(root, older_than_s=3600, spared={spared.submission_id})

    assert removed == 4
    assert {path.name for path in root.iterdir()} == {spared.path.name, "work"}


@pytest.mark.parametrize("error", [OSError(errno.EIO, "Input/output error"), OSError(errno.ESTALE, "Stale"), KeyError("ours")])
async def test_a_spool_that_cannot_be_read_is_a_failure_of_this_attempt_alone(
    root: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    broken, other = ended(root), ended(root)
    monkeypatch.setattr(Spool, "outcome", with_error(broken, error))

    statuses = await backend(root).status({broken.submission_id: {}, other.submission_id: {}})

    assert statuses[other.submission_id].phase is Phase.SUCCEEDED
    assert statuses[broken.submission_id].phase is Phase.FAILED
    assert statuses[broken.submission_id].reason.startswith("the files of the attempt cannot be read: ")


async def test_a_host_without_descriptors_fails_no_attempt(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = ended(root)
    monkeypatch.setattr(Spool, "outcome", with_error(spool, OSError(errno.EMFILE, "Too many open files")))

    with pytest.raises(UnavailableError, match="Too many open files"):
        await backend(root).status({spool.submission_id: {}})


async def test_no_memory_is_no_failure_of_an_attempt(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = ended(root)
    monkeypatch.setattr(Spool, "outcome", with_error(spool, MemoryError()))

    with pytest.raises(MemoryError):
        await backend(root).status({spool.submission_id: {}})


async def test_runners_that_died_at_once_are_reaped_a_few_in_each_look(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dead: dict[UUID, Handle] = {prepared(root).submission_id: {} for _ in range(2 * REAPERS + 1)}
    reaped: list[UUID] = []

    async def start(action: str, spool: Spool) -> None:
        assert action == "reap"
        reaped.append(spool.submission_id)
        raise UnavailableError("no process can be started", server="the runners")

    monkeypatch.setattr(launch, "start", start)
    for submission_id in dead:
        Spool(root, submission_id).claim(DEAD)
    looking, counts = backend(root), list[int]()
    for _ in range(4):
        statuses = await looking.status(dead)
        counts.append(len(reaped))

    assert counts == [REAPERS, 2 * REAPERS, 2 * REAPERS + 1, 2 * REAPERS + 1]
    assert set(reaped) == dead.keys()
    assert {status.phase for status in statuses.values()} == {Phase.RUNNING}


async def test_a_claim_that_cannot_be_read_is_no_outage_of_the_spool(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = prepared(root)
    spool.claim(DEAD)

    def claimed(_: Spool) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Spool, "claimed", claimed)
    found = await backend(root).find(spool.submission_id)
    await backend(root).kill({"spool": str(spool.submission_id)})
    root.rename(gone := root.with_name(f"{root.name}.gone"))
    monkeypatch.setattr(Spool, "has_claim", lambda _: True)

    with pytest.raises(UnavailableError):
        await backend(root).find(spool.submission_id)
    gone.rename(root)
    assert found == {"spool": str(spool.submission_id), "pid": None}


async def test_a_full_disk_is_an_outage_of_the_spool(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = prepared(root)

    def full(_: Spool) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Spool, "ask_to_stop", full)

    with pytest.raises(UnavailableError, match="No space left"):
        await backend(root).kill({"spool": str(spool.submission_id)})


async def test_a_runner_that_died_does_not_run(root: Path) -> None:
    """Otherwise each sweep of an ended attempt would kill it again."""
    dead, living = prepared(root), prepared(root)
    me = identify(os.getpid())
    assert me is not None
    dead.claim(DEAD)
    living.claim(me)

    assert list(await backend(root).running()) == [living.submission_id]


async def test_a_spool_that_cannot_be_written_delays_no_other_confirmation(root: Path) -> None:
    spoiled, good = uuid4(), uuid4()
    (root / str(spoiled)).write_text("no directory")
    Spool(root, good).make()

    with pytest.raises(UnavailableError, match="cannot be used"):
        await backend(root).confirm({spoiled: None, good: None})

    assert Spool(root, good).is_confirmed()
