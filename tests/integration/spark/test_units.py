"""Tasks where systemd runs: `systemd-run` on the path says what it refuses."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.integration.spark.submissions import Bench
from tidegate.daemon.spark import launch
from tidegate.daemon.spark.contract import Phase
from tidegate.schemas.dag import CommandTask

REFUSES = """#!/bin/sh
echo "Failed to connect to bus: No medium found" >&2
exit 1
"""
TASK = CommandTask(task_id="say", argv=("true",))


@pytest.fixture(autouse=True)
def systemd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "SYSTEMD_RUNS", True)
    launch.report.cache_clear()


async def test_a_task_runs_without_a_unit_if_systemd_refuses_and_the_log_says_why(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "bin" / "systemd-run"
    program.parent.mkdir()
    program.write_text(REFUSES)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")

    with capture_logs() as entries:
        phases = [(await bench.outcome(TASK))[0].phase for _ in range(2)]

    assert phases == [Phase.SUCCEEDED, Phase.SUCCEEDED]
    (entry,) = (entry for entry in entries if entry["event"] == "task_unit_refused")
    assert entry["error"] == "Failed to connect to bus: No medium found"
    assert "loginctl enable-linger" in entry["hint"]


async def test_a_task_runs_on_a_host_without_systemd_run(bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    for name in ("true", "sh"):
        (tmp_path / "bin" / name).symlink_to(f"/bin/{name}")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))

    with capture_logs() as entries:
        status, _ = await bench.outcome(TASK)

    assert status.phase is Phase.SUCCEEDED
    assert [entry["error"] for entry in entries] == ["systemd-run could not be started: No such file or directory"]
