"""The outcome of an attempt is stored, also on a disk that is full for a while."""

import errno
import os
import signal
from pathlib import Path

import msgspec
import pytest

from tests.unit.spark.test_spool import prepared
from tidegate.daemon.spark import whole_file
from tidegate.daemon.spark.runner import conclusion, kinds
from tidegate.daemon.spark.runner.conclusion import conclude
from tidegate.daemon.spark.spool import Outcome, Spool
from tidegate.schemas.wire.event import MAX_RECORD_BYTES

SUCCESS = Outcome(outcome="succeeded")


@pytest.mark.parametrize(("failures", "silent_s", "is_stored"), [(0, None, True), (2, None, True), (1000, 0.0, False)])
def test_a_success_survives_a_full_disk(
    failures: int, silent_s: float | None, is_stored: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka cannot be told: the daemon has a secret of it by value. This process is no runner: what it has started goes on."""
    spool = prepared(tmp_path)
    job = spool.job()
    assert job is not None
    left = [OSError(errno.ENOSPC, "No space left on device")] * failures
    create = whole_file.create

    def create_later(path: Path, content: bytes) -> bool:
        if left:
            raise left.pop()
        return create(path, content)

    monkeypatch.setattr(whole_file, "create", create_later)
    monkeypatch.setattr(conclusion, "STORE_EVERY_S", 0.0)
    monkeypatch.setattr(conclusion, "end_all", lambda *_args, **_options: 0)
    monkeypatch.setattr(kinds, "end", lambda *_: None)
    beats = list[int]()
    monkeypatch.setattr(Spool, "beat", lambda _: beats.append(len(left)))

    conclude(spool, msgspec.structs.replace(job, kafka_security=None, silent_s=silent_s), SUCCESS, None)

    outcome = spool.outcome()
    assert (outcome is not None and outcome.outcome == "succeeded") == is_stored
    assert not is_stored or beats == list(range(failures, -1, -1)), "one before each try"
    assert not spool.work.exists(), "temporary files can be what fills the disk"


@pytest.mark.parametrize("size", [1 << 12, (1 << 16) + 1, MAX_RECORD_BYTES])
def test_an_outcome_of_any_size_reaches_the_next_program_at_once(size: int) -> None:
    pipe = conclusion.pipe_with(content := b"x" * size)

    with open(pipe, "rb", buffering=0) as end:
        assert (end.read(MAX_RECORD_BYTES), os.get_inheritable(pipe)) == (content, True)


@pytest.mark.parametrize(("silent_s", "patience_s"), [(None, 60), (900, 60), (240, 30), (8, 5)])
def test_a_server_has_time_to_end_a_session_until_a_retry(silent_s: float | None, patience_s: float, tmp_path: Path) -> None:
    job = prepared(tmp_path).job()
    assert job is not None

    assert conclusion.patience_s(msgspec.structs.replace(job, silent_s=silent_s)) == patience_s


def test_nothing_is_logged_until_the_next_program_has_replaced_the_threads_of_the_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The log is in the spool, which may hang."""
    spool = prepared(tmp_path)

    def execve(*_: object) -> None:
        raise OSError(errno.ENOENT, "No such file")

    monkeypatch.setattr(conclusion, "end_all", lambda *_args, **_options: 2)
    monkeypatch.setattr(os, "execve", execve)

    with caplog.at_level("INFO", "tidegate"), pytest.raises(FileNotFoundError):
        conclusion.exec_conclusion(spool, SUCCESS, {})
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})  # blocked for the next program

    assert caplog.messages == []
