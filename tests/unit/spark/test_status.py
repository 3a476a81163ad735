"""The status of many attempts in one look: a fault of one spool is a failure of its attempt alone."""

import errno
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID, uuid4

import anyio
import anyio.lowlevel
import pytest

from tests.unit.spark.test_spool import DEAD, DONE, prepared
from tests.waiting import until
from tidegate.daemon.settings import Settings
from tidegate.daemon.spark import launch, runner_backend
from tidegate.daemon.spark.contact import elapsed
from tidegate.daemon.spark.contract import Handle, Phase
from tidegate.daemon.spark.process import identify
from tidegate.daemon.spark.regular_file import DamagedError
from tidegate.daemon.spark.runner import conclusion
from tidegate.daemon.spark.runner_backend import REAPERS, RunnerBackend
from tidegate.daemon.spark.spool import Job, Outcome, Spool, prune
from tidegate.schemas.error import RUNNERS, SPOOL, NotStartedError, UnavailableError

FAR = 10**12
"""Seconds after 1970 that no calendar has."""


@pytest.fixture
def root() -> Iterator[Path]:
    """On a file system that stores any time."""
    with TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


def backend(root: Path, prefix: str = "t.") -> RunnerBackend:
    settings = Settings(postgres_dsn="postgresql://unused", kafka_servers="unused:1", topic_prefix=prefix, spool_dir=str(root))
    return RunnerBackend("command", settings)


def ended(root: Path) -> Spool:
    spool = prepared(root)
    spool.claim(DEAD)
    spool.end(DONE)
    return spool


def living(root: Path) -> Spool:
    """The spool of a runner that runs: this process."""
    spool = prepared(root)
    me = identify(os.getpid())
    assert me is not None
    spool.claim(me)
    return spool


def with_error(spool: Spool, error: Exception, read: Callable[[Spool], object] = Spool.outcome) -> Callable[[Spool], object]:
    """`read`, which fails for one spool."""

    def fails(self: Spool) -> object:
        if self.submission_id == spool.submission_id:
            raise error
        return read(self)

    return fails


@pytest.mark.parametrize("seconds", [FAR, -FAR])
async def test_an_impossible_time_is_a_failure_of_this_attempt_alone(root: Path, seconds: int) -> None:
    spoiled, other = prepared(root), ended(root)
    os.utime(spoiled.path / "spec.json", (seconds, seconds))

    statuses = await backend(root).status({spoiled.submission_id: {}, other.submission_id: {}})

    assert statuses[other.submission_id].phase is Phase.SUCCEEDED
    assert statuses[spoiled.submission_id].phase is Phase.FAILED
    assert f"{spoiled.path}/spec.json has an impossible time: {seconds} s since 1970" in statuses[spoiled.submission_id].reason


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"]) as process:  # noqa: S607 - whichever there is
        yield process
        process.kill()


@pytest.mark.parametrize(
    ("silent_s", "is_runner", "lives"),
    [
        pytest.param(674.0, True, True, id="not for long enough"),
        pytest.param(676.0, True, False, id="frozen"),
        pytest.param(676.0, False, True, id="a process that the claim names, and that is no runner"),
    ],
)
async def test_a_runner_that_has_been_silent_for_three_quarters_is_killed(
    root: Path,
    process: subprocess.Popen[bytes],
    silent_s: float,
    is_runner: bool,
    lives: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(RunnerBackend, "_start_reaper", lambda *_: anyio.lowlevel.checkpoint())
    spool, claimant = prepared(root), identify(process.pid)
    assert claimant is not None
    spool.claim(claimant)
    beat_at = float(int(elapsed()))
    monkeypatch.setattr("tidegate.daemon.spark.spool.elapsed", lambda: beat_at)
    spool.beat()
    monkeypatch.setattr("tidegate.daemon.spark.spool.elapsed", lambda: beat_at + silent_s)
    handle = {"spool": str(spool.submission_id), "pid": process.pid if is_runner else 1}

    status = (await backend(root).status({spool.submission_id: handle}))[spool.submission_id]

    if not lives:
        await until(lambda: process.poll() is not None, 60)
    assert (process.poll() is None, status.reason == "") == (lives, lives)


def test_an_impossible_time_of_a_heartbeat_is_damage(root: Path) -> None:
    spool = prepared(root)
    spool.beat()
    os.utime(spool.path / "heartbeat", (FAR, FAR))

    with pytest.raises(DamagedError, match="heartbeat has an impossible time"):
        spool.heartbeat_age_s()


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
    assert {path.name for path in root.iterdir()} == {spared.path.name, "work", "tmp"}


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


@pytest.mark.parametrize("code", [errno.EIO, errno.EUCLEAN])
async def test_a_runner_whose_job_cannot_be_read_hides_no_other(root: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    broken, other, looking = living(root), living(root), backend(root)

    with monkeypatch.context() as disk:
        disk.setattr(Spool, "job", with_error(broken, OSError(code, "not readable"), Spool.job))
        found = list(await looking.running())

    assert found == [other.submission_id]
    assert set(await looking.running()) == {broken.submission_id, other.submission_id}


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
    dead, reaped = died(root, 2 * REAPERS + 1), list[UUID]()

    async def start(action: str, spool: Spool, **_: object) -> None:
        assert action == "reap"
        reaped.append(spool.submission_id)
        raise UnavailableError("no process can be started", server="the runners")

    monkeypatch.setattr(launch, "start", start)
    looking, counts = backend(root), list[int]()
    for _ in range(4):
        statuses = await looking.status(dead)
        counts.append(len(reaped))

    assert counts == [REAPERS, 2 * REAPERS, 2 * REAPERS + 1, 2 * REAPERS + 1]
    assert set(reaped) == dead.keys()
    assert {status.phase for status in statuses.values()} == {Phase.RUNNING}


@pytest.fixture
def reaped(monkeypatch: pytest.MonkeyPatch) -> list[UUID]:
    """The submissions whose reapers were started, which are all that is done."""
    reaped: list[UUID] = []

    async def start(_action: str, spool: Spool, **_: object) -> None:
        reaped.append(spool.submission_id)

    monkeypatch.setattr(launch, "start", start)
    return reaped


def died(root: Path, count: int) -> dict[UUID, Handle]:
    spools = [prepared(root) for _ in range(count)]
    for spool in spools:
        spool.claim(DEAD)
    return {spool.submission_id: {} for spool in spools}


async def test_a_look_at_others_forgets_no_reaper(root: Path, reaped: list[UUID]) -> None:
    """The receiver of notifications looks at one function at a time, by the same backend."""
    dead, looking = died(root, 2), backend(root)

    for handles in (dead, {}, dead):
        await looking.status(handles)

    assert sorted(reaped) == sorted(dead)


async def test_runners_that_stay_dead_are_reaped_in_turn(root: Path, reaped: list[UUID], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner_backend, "REAP_S", 0.0)
    dead, looking = died(root, 2 * REAPERS + 1), backend(root)

    for _ in range(3):
        await looking.status(dead)

    assert set(reaped) == dead.keys()


def test_a_daemon_gives_a_runner_more_time_than_the_runner_gives_its_task() -> None:
    """Else the daemon would kill the runner before it has stored the outcome of a task that ends late."""
    assert runner_backend.KILL_GRACE_S > 2 * (conclusion.KILL_GRACE_S + conclusion.KILLING_S)


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


async def test_a_full_disk_keeps_no_runner_from_its_end(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runner may be the one whose task has filled it."""
    spool = prepared(root)

    def full(_: Spool) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Spool, "ask_to_stop", full)
    with subprocess.Popen(["/bin/sleep", "600"], env={}) as process:  # noqa: ASYNC220 - it is there at once
        runner = identify(process.pid)
        assert runner is not None
        spool.claim(runner)

        try:
            await backend(root).kill({"spool": str(spool.submission_id), "pid": process.pid})
            ended = process.poll()
        finally:
            process.kill()

    assert ended == -signal.SIGTERM


@pytest.mark.parametrize(("is_recorded", "ended"), [(True, -signal.SIGTERM), (False, None)])
async def test_a_runner_without_its_stamp_is_killed_by_the_recorded_pid(root: Path, is_recorded: bool, ended: int | None) -> None:
    """A task can overwrite the environment of its runner, and write a claim that names another process."""
    spool = prepared(root)
    with subprocess.Popen(["/bin/sleep", "600"], env={}) as process:  # noqa: ASYNC220 - it is there at once
        runner = identify(process.pid)
        assert runner is not None
        spool.claim(runner)

        await backend(root).kill({"spool": str(spool.submission_id), "pid": process.pid if is_recorded else 1})

        found = process.poll()
        process.kill()

    assert found == ended


async def test_a_submit_on_a_full_disk_has_started_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = prepared(root).job()
    assert job is not None

    def full(_: Spool, __: Job) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Spool, "prepare", full)

    with pytest.raises(NotStartedError, match="No space left") as raised:
        await backend(root).submit(job.spec)

    assert raised.value.server == SPOOL


async def test_a_host_can_start_attempts_while_its_spool_can_be_written_and_processes_start(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await backend(root).check()
    left, spoiled = list(root.iterdir()), backend(root / "file")
    (root / "file").touch()
    with pytest.raises(UnavailableError, match="File exists") as spool:
        await spoiled.check()

    async def exhausted(*_: Any, **__: Any) -> None:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(anyio, "run_process", exhausted)
    with pytest.raises(UnavailableError, match="Resource temporarily unavailable") as processes:
        await backend(root).check()

    assert (left, spool.value.server, processes.value.server) == ([], SPOOL, RUNNERS)


async def test_an_attempt_of_a_runner_that_died_runs_until_its_end_is_on_record(root: Path) -> None:
    """Its programs may run: a sweep has them ended by asking for the status."""
    dead, ended = died(root, 2)
    Spool(root, ended).end(Outcome(outcome="failed"))
    runs = living(root)

    assert set(await backend(root).running()) == {dead, runs.submission_id}


async def test_what_runs_for_an_installation_with_other_topics_is_none_of_mine(root: Path) -> None:
    spool, me = prepared(root), identify(os.getpid())
    assert me is not None
    spool.claim(me)

    assert [list(await backend(root, prefix).running()) for prefix in ("t.", "other.")] == [[spool.submission_id], []]


async def test_a_spool_that_cannot_be_written_delays_no_other_confirmation(root: Path) -> None:
    spoiled, good = uuid4(), uuid4()
    (root / str(spoiled)).write_text("no directory")
    Spool(root, good).make()

    with pytest.raises(UnavailableError, match="cannot be used"):
        await backend(root).confirm({spoiled: None, good: None})

    assert Spool(root, good).is_confirmed()
