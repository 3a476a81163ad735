"""The files of a submission that a task has spoiled: read in bounded time and memory, and never believed."""

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.spark.test_spool import DEAD, prepared
from tidegate.daemon.spark.regular_file import DamagedError
from tidegate.daemon.spark.spool import Spool, prune
from tidegate.schemas.wire.event import MAX_RECORD_BYTES


def garbage(path: Path) -> None:
    path.write_bytes(b"\xff{")


def fifo(path: Path) -> None:
    os.mkfifo(path)


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


def symlink(path: Path) -> None:
    path.symlink_to("/dev/zero")


def dangling(path: Path) -> None:
    path.symlink_to(path.with_name("nothing"))


def directory(path: Path) -> None:
    (path / "below").mkdir(parents=True)


def deep(path: Path) -> None:
    path.write_text("[" * 100_000)


SPOIL = [garbage, fifo, huge, symlink, dangling, directory, deep]


@pytest.mark.parametrize("spoil", SPOIL)
@pytest.mark.parametrize(("name", "read"), [("outcome.json", Spool.outcome), ("claim", Spool.claimed), ("spec.json", Spool.job)])
def test_it_is_told_which_file_is_damaged(
    tmp_path: Path, name: str, read: Callable[[Spool], object], spoil: Callable[[Path], None]
) -> None:
    spool = prepared(tmp_path)
    (spool.path / name).unlink(missing_ok=True)
    spoil(spool.path / name)

    with pytest.raises(DamagedError, match=f"{name} (is|has|cannot)"):
        read(spool)


@pytest.mark.parametrize("spoil", [fifo, symlink, dangling, directory])
def test_a_log_that_is_no_file_is_not_read(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    spool = prepared(tmp_path)
    spoil(spool.log)

    with pytest.raises(DamagedError, match="log is "):
        spool.read_log(0)


@pytest.mark.parametrize(
    "outcome",
    [
        b'{"outcome": "gone"}',
        b'{"outcome": "failed", "exit_code": 4294967296}',
        b'{"outcome": "succeeded", "started_at": "2013-01-01T00:00:00"}',
        b'{"outcome": "succeeded", "result": "\\u0000"}',
        b'{"outcome": "succeeded", "result": %s}' % (b"[" * 70 + b"]" * 70),
        b'{"outcome": "succeeded", "result": "%s"}' % (b"x" * MAX_RECORD_BYTES),
    ],
)
def test_an_outcome_that_could_not_be_an_event_is_damaged(tmp_path: Path, outcome: bytes) -> None:
    spool = prepared(tmp_path)
    (spool.path / "outcome.json").write_bytes(outcome)

    with pytest.raises(DamagedError, match=r"outcome\.json"):
        spool.outcome()


@pytest.mark.parametrize("pid", ["-1", "0", "4294967296"])
def test_a_claim_of_an_impossible_process_is_damaged(tmp_path: Path, pid: str) -> None:
    spool = prepared(tmp_path)
    spool.claim(DEAD)
    claim = spool.path / "claim"
    claim.write_text(claim.read_text().replace(str(DEAD.pid), pid))

    with pytest.raises(DamagedError, match="claim cannot be read"):
        spool.claimed()


def test_a_claim_at_a_time_without_a_zone_is_damaged(tmp_path: Path) -> None:
    spool = prepared(tmp_path)
    spool.claim(DEAD)
    claim = spool.path / "claim"
    claim.write_text(re.sub(r"(?<=:\d\d)(\.\d+)?(Z|\+00:00)", "", claim.read_text()))

    with pytest.raises(DamagedError, match="claim cannot be read"):
        spool.claimed()


@pytest.mark.parametrize("spoil", [fifo, dangling, directory])
def test_a_heartbeat_and_a_request_to_stop_create_nothing_elsewhere(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    spool = prepared(tmp_path)
    for name in ("heartbeat", "kill"):
        spoil(spool.path / name)

    spool.beat()
    spool.ask_to_stop()

    assert spool.asked_to_stop()
    assert spool.heartbeat_age_s() is not None
    assert not (spool.path / "nothing").exists()


def test_the_temporary_files_of_a_task_are_apart_from_its_record_and_from_other_tasks(tmp_path: Path) -> None:
    spool, other = prepared(tmp_path), prepared(tmp_path)

    shutil.rmtree(spool.work.parent)
    shutil.rmtree(spool.path.parent / "tmp" / spool.submission_id.hex[:16])

    assert spool.job() is not None
    assert other.work.is_dir()
    assert other.tmp.is_symlink()


def test_spoiled_directories_are_pruned_however_deep(tmp_path: Path) -> None:
    claimed, replaced, nested = (prepared(tmp_path) for _ in range(3))
    fifo(claimed.path / "claim")
    shutil.rmtree(replaced.path)
    symlink(replaced.path)
    make_deep(nested.work, 3000)
    nested.work.chmod(0)
    for spool in (claimed, replaced, nested):
        os.utime(spool.path, (0, 0), follow_symlinks=False)
    os.utime(nested.path / "spec.json", (0, 0))

    prune(tmp_path, older_than_s=3600)
    prune(tmp_path, older_than_s=3600)

    assert {path.name for path in tmp_path.rglob("*")} == {"work", "tmp"}


def make_deep(top: Path, levels: int) -> None:
    descriptor = os.open(top, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=descriptor)
        below = os.open("d", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = below
    os.close(descriptor)
