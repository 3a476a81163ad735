"""A standalone ends the runners of its spool, and looks at no spool without processes."""

import os
import signal
import subprocess
from pathlib import Path
from uuid import UUID

import pytest

from tests.unit.spark.test_spool import DEAD, DONE, prepared
from tidegate.daemon.spark.process import STAMP, end_all
from tidegate.daemon.standalone import leftover


def test_only_spools_with_processes_are_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    live, *ended = (prepared(tmp_path) for _ in range(4))
    for spool in ended:
        spool.claim(DEAD)
        spool.end(DONE)
    looked_at: list[UUID] = []

    def end(submission_id: UUID, grace_s: float) -> int:
        looked_at.append(submission_id)
        return end_all(submission_id, grace_s)

    monkeypatch.setattr(leftover, "end_all", end)
    env = os.environ | {STAMP: str(live.submission_id)}
    with subprocess.Popen(["sleep", "600"], env=env) as process:  # noqa: S607 - whichever there is
        count = leftover.end_runners(tmp_path)
        code = process.wait(60)

    assert (looked_at, count, code) == ([live.submission_id], 1, -signal.SIGTERM)
