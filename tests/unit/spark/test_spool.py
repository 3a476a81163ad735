"""The files of a submission, on a real file system."""

import errno
import os
import stat
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
import time_machine

from tidegate.daemon.spark import event_file
from tidegate.daemon.spark import spool as spool_module
from tidegate.daemon.spark.contract import LogChunk, SubmissionSpec
from tidegate.daemon.spark.process import Identity, identify
from tidegate.daemon.spark.spool import Job, Outcome, Spool, prune
from tidegate.schemas.dag import CommandTask
from tidegate.schemas.run import RunContext

NOW = datetime(2013, 1, 1, tzinfo=UTC)
DEAD = Identity(2**22 + 1, 1, "another boot")
DONE = Outcome(outcome="succeeded", started_at=NOW, finished_at=NOW)


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return prepared(tmp_path)


def prepared(root: Path) -> Spool:
    spool = Spool(root, uuid4())
    run = RunContext(dag_id="d", run_id="r", run_type="manual", run_after=NOW, params={"day": 1})
    task = CommandTask(task_id="c", argv=("true",))
    spool.prepare(
        Job(
            spec=SubmissionSpec(submission_id=spool.submission_id, try_number=1, task=task, run=run, dag_path="d.py", source=""),
            dags_folder="/dags",
            spark_remote="sc://x",
            spark_master="local",
            kafka_servers="k:1",
            topic_prefix="t.",
            heartbeat_s=5,
        )
    )
    return spool


def test_what_is_prepared_can_be_read_by_its_owner_only(spool: Spool) -> None:
    job = spool.job()

    assert job is not None
    assert job.spec.run.params == {"day": 1}
    assert spool.path.stat().st_mode & 0o777 == 0o700
    assert (spool.path / "spec.json").stat().st_mode & 0o777 == 0o600


def test_the_path_of_temporary_files_has_room_for_a_unix_socket(tmp_path: Path) -> None:
    """The longest one of multiprocessing, below the default folder of a daemon."""
    spool = prepared(tmp_path / "spool")
    below = spool.tmp.relative_to(tmp_path / "spool")
    (spool.tmp / "file").touch()

    longest = Path("/home/tidegate/.local/state/tidegate/spool") / below / "pymp-xxxxxxxx/listener-xxxxxxxx"

    assert len(os.fsencode(longest)) <= 107
    assert (spool.work / "file").exists()


def test_without_links_temporary_files_have_their_long_path(tmp_path: Path) -> None:
    (tmp_path / "tmp").touch()

    spool = prepared(tmp_path)

    assert spool.tmp == spool.work


def test_of_many_that_claim_at_once_one_gets_it(spool: Spool) -> None:
    got: list[bool] = []
    start = threading.Barrier(16)

    def claim(pid: int) -> None:
        start.wait()
        got.append(spool.claim(Identity(pid, 1, "boot")))

    threads = [threading.Thread(target=claim, args=(pid,)) for pid in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(got) == [False] * 15 + [True]


def test_the_first_outcome_stays(spool: Spool) -> None:
    first = spool.end(DONE)
    second = spool.end(Outcome(outcome="failed", started_at=NOW, finished_at=NOW))

    assert (first, second) == (True, False)
    assert spool.outcome() == DONE


def test_no_draft_is_left(spool: Spool) -> None:
    spool.claim(DEAD)
    spool.claim(DEAD)
    spool.end(DONE)

    assert sorted(path.name for path in spool.path.iterdir()) == ["claim", "outcome.json", "spec.json"]


def test_a_directory_that_is_not_there_reads_as_empty(tmp_path: Path) -> None:
    spool = Spool(tmp_path, uuid4())

    assert (spool.job(), spool.claimed(), spool.outcome(), spool.heartbeat_at(), spool.prepared_at()) == (None,) * 5
    assert spool.read_log(7) == LogChunk(content=b"", next_offset=7, complete=True)


def test_a_log_is_read_in_chunks_and_complete_at_the_end_of_an_ended_one(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool_module, "LOG_CHUNK_BYTES", 4)
    spool.log.write_bytes(b"abcdef")

    running = spool.read_log(4)
    spool.end(DONE)
    first, second = spool.read_log(0), spool.read_log(4)

    assert running == LogChunk(content=b"ef", next_offset=6, complete=False, size=6)
    assert first == LogChunk(content=b"abcd", next_offset=4, complete=False, size=6)
    assert second == LogChunk(content=b"ef", next_offset=6, complete=True, size=6)


@pytest.mark.parametrize("offset", [9, 2**62, 2**63 - 1])
def test_past_the_end_of_a_log_there_is_nothing(spool: Spool, offset: int) -> None:
    spool.log.write_bytes(b"12345678")

    assert spool.read_log(offset) == LogChunk(content=b"", next_offset=offset, complete=False, size=8)


def test_a_file_is_readable_by_its_owner_whatever_umask_a_task_sets(spool: Spool) -> None:
    umask = os.umask(0o777)
    try:
        spool.end(DONE)
    finally:
        os.umask(umask)

    assert stat.S_IMODE((spool.path / "outcome.json").stat().st_mode) == 0o600


def test_an_outcome_counts_if_its_file_system_only_says_that_there_was_one(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    """As NFS does, which repeats a request whose answer is lost."""
    link, unlink = Path.hardlink_to, Path.unlink

    def link_twice(path: Path, draft: Path) -> None:
        link(path, draft)
        link(path, draft)

    def unlink_twice(path: Path, *, missing_ok: bool = False) -> None:
        unlink(path)
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "hardlink_to", link_twice)
    monkeypatch.setattr(Path, "unlink", unlink_twice)

    assert (spool.end(DONE), spool.end(DONE)) == (True, False)


def test_a_copy_of_a_draft_by_links_makes_no_second_claim(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    """As backups make them."""
    link = Path.hardlink_to

    def link_with_copy(path: Path, draft: Path) -> None:
        link(draft.with_suffix(".copy"), draft)
        link(path, draft)

    monkeypatch.setattr(Path, "hardlink_to", link_with_copy)

    assert (spool.claim(DEAD), spool.claim(DEAD)) == (True, False)


def test_only_what_ended_long_ago_or_never_began_is_pruned(tmp_path: Path) -> None:
    me = identify(os.getpid())
    assert me is not None
    fresh, old, unclaimed, running, announcing, other = (prepared(tmp_path) for _ in range(6))
    for spool, claimant in ((fresh, DEAD), (old, DEAD), (running, me), (announcing, me)):
        spool.claim(claimant)
    for spool in (fresh, old, announcing):
        spool.end(DONE)
    for file in (
        old.path / "outcome.json",
        announcing.path / "outcome.json",
        unclaimed.path / "spec.json",
        running.path / "spec.json",
    ):
        os.utime(file, (0, 0))
    (tmp_path / "notes").mkdir()

    removed = prune(tmp_path, older_than_s=3600)

    assert removed == 2
    going_on = (running, announcing, other)
    assert {path.name for path in (tmp_path / "tmp").iterdir()} == {spool.tmp.parent.name for spool in going_on}
    kept = {spool.path.name for spool in going_on}
    assert {path.name for path in tmp_path.iterdir()} == kept | {fresh.path.name, "notes", "work", "tmp"}
    assert {path.name for path in (tmp_path / "work").iterdir()} == kept


def test_a_spool_that_cannot_be_read_keeps_no_other_from_being_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unreadable, old = prepared(tmp_path), prepared(tmp_path)
    claimed = Spool.claimed

    def fail(spool: Spool) -> object:
        if spool.submission_id == unreadable.submission_id:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return claimed(spool)

    monkeypatch.setattr(Spool, "claimed", fail)

    assert prune(tmp_path, older_than_s=-1) == 1
    assert (unreadable.path.exists(), old.path.exists()) == (True, False)


def test_temporary_files_are_kept_until_their_attempt_has_ended(tmp_path: Path) -> None:
    """A task can have written an outcome itself, or a claim that cannot be read."""
    me = identify(os.getpid())
    assert me is not None
    ended, going_on, spoiled = (prepared(tmp_path) for _ in range(3))
    for spool, claimant in ((ended, DEAD), (going_on, me)):
        spool.claim(claimant)
        spool.end(DONE)
    spoiled.end(DONE)
    (spoiled.path / "claim").write_text("{")
    (tmp_path / "work" / "notes").mkdir()
    (tmp_path / "notes").mkdir()

    removed = prune(tmp_path, older_than_s=3600)

    assert (removed, ended.outcome(), ended.work.exists()) == (0, DONE, False)
    assert (going_on.work.exists(), spoiled.work.exists(), (tmp_path / "work" / "notes").exists()) == (True, True, True)


def test_there_may_be_nothing_to_prune(tmp_path: Path) -> None:
    assert prune(tmp_path / "spool", older_than_s=1) == 0


def test_what_is_spared_is_not_pruned(tmp_path: Path) -> None:
    spared, old = prepared(tmp_path), prepared(tmp_path)
    for spool in (spared, old):
        os.utime(spool.path / "spec.json", (0, 0))

    removed = prune(tmp_path, older_than_s=3600, spared={spared.submission_id})

    assert (removed, {path.name for path in tmp_path.iterdir()}) == (1, {spared.path.name, "work", "tmp"})


def test_what_was_half_removed_is_removed_by_the_next_one(tmp_path: Path) -> None:
    half = prepared(tmp_path)
    half.path.rename(tmp_path / f".going.{half.submission_id}")

    prune(tmp_path, older_than_s=3600)

    assert {path.name for path in tmp_path.rglob("*")} == {"work", "tmp"}


@pytest.mark.parametrize(("later_s", "age_s"), [(2.0, 2.0), (-600.0, 0.0)])
def test_a_sign_of_life_is_as_old_as_the_clock_of_its_host_says(spool: Spool, later_s: float, age_s: float) -> None:
    """However wrong that is, and also when it was set back meanwhile."""
    spool.beat()
    os.utime(spool.path / "heartbeat", (NOW.timestamp(), NOW.timestamp()))

    with time_machine.travel(NOW + timedelta(seconds=later_s), tick=False):
        assert spool.heartbeat_age_s() == pytest.approx(age_s)


def test_without_a_sign_of_life_its_age_is_unknown(spool: Spool) -> None:
    assert spool.heartbeat_age_s() is None


def test_a_runner_is_silent_since_its_last_heartbeat_whatever_the_clock_of_its_host_says(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = spool.silence_s()
    monkeypatch.setattr("tidegate.daemon.spark.spool.elapsed", lambda: 1000.0)
    spool.beat()
    monkeypatch.setattr("tidegate.daemon.spark.spool.elapsed", lambda: 1012.0)

    with time_machine.travel(NOW + timedelta(days=400), tick=False):
        silence_s = spool.silence_s()

    assert before == 0.0
    assert silence_s == pytest.approx(12.0)


def test_a_runner_of_an_older_version_is_never_silent(spool: Spool) -> None:
    """Its heartbeats have the time of the calendar alone."""
    spool.beat()
    os.utime(spool.path / "heartbeat")

    assert spool.silence_s() == 0.0


def test_what_a_dead_runner_or_a_failed_start_left_is_pruned(tmp_path: Path) -> None:
    dead, recent, beating = (prepared(tmp_path) for _ in range(3))
    empty, new = Spool(tmp_path, uuid4()), Spool(tmp_path, uuid4())
    for spool in (dead, recent, beating):
        spool.claim(DEAD)
        os.utime(spool.path / "spec.json", (0, 0))
    for spool in (dead, beating):
        os.utime(spool.path / "claim", (0, 0))
    beating.beat()
    for spool in (empty, new):
        spool.make()
    os.utime(empty.path, (0, 0))

    removed = prune(tmp_path, older_than_s=3600)

    assert removed == 2
    kept = {spool.path.name for spool in (recent, beating, new)}
    assert {path.name for path in tmp_path.iterdir()} == kept | {"work", "tmp"}
    assert {path.name for path in (tmp_path / "work").iterdir()} == kept


def test_temporary_files_of_a_submission_whose_spool_is_made_next_stay(tmp_path: Path) -> None:
    coming, left = event_file.create(tmp_path, uuid4()), event_file.create(tmp_path, uuid4())
    os.utime(left.parent, (0, 0))

    prune(tmp_path, older_than_s=3600)

    assert (coming.exists(), left.exists()) == (True, False)


def test_a_full_disk_leaves_no_draft(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)

    for _ in range(2):
        with pytest.raises(OSError, match="No space left"):
            spool.end(DONE)

    assert [path.name for path in spool.path.iterdir()] == ["spec.json"]
