"""What a runner is started with."""

import sys
from pathlib import Path
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from tidegate.daemon.spark import launch
from tidegate.daemon.spark.launch import environment, for_systemd, unit
from tidegate.daemon.spark.spool import Spool
from tidegate.schemas.dag import Resources

ID = UUID("5d9f3a52-6d0e-5e0b-9d0a-0d8f4f0b7c11")


def test_the_environment_is_reduced_to_what_programs_need_and_the_stamp() -> None:
    daemon = {
        "PATH": "/bin",
        "LC_ALL": "C.UTF-8",
        "TIDEGATE_POSTGRES_DSN": "secret",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "NOTIFY_SOCKET": "/n",
    }

    assert environment(daemon, Spool(Path("/spool"), ID)) == {
        "PATH": "/bin",
        "LC_ALL": "C.UTF-8",
        "TASK_SUBMISSION_ID": str(ID),
        "TMPDIR": f"/spool/work/{ID}/files",
        "PYTHONUNBUFFERED": "1",
        "PYSPARK_PYTHON": sys.executable,
    }


def test_a_transient_unit_has_a_name_of_its_own_and_writes_to_the_log() -> None:
    command = unit(["python", "-m", "runner"], "tidegate-x", Path("/spool/log"), {"PATH": "/bin"}, user=True)

    assert command == [
        "systemd-run",
        "--user",
        "--quiet",
        "--collect",
        "--service-type=exec",
        "--unit=tidegate-x",
        "--property=StandardOutput=append:/spool/log",
        "--property=StandardError=append:/spool/log",
        "--setenv=PATH=/bin",
        "--",
        "python",
        "-m",
        "runner",
    ]


@pytest.mark.parametrize(
    ("resources", "properties"),
    [
        (None, []),
        (Resources(), []),
        (Resources(memory_mb=2048), ["MemoryMax=2048M", "MemorySwapMax=0", "OOMPolicy=continue"]),
        (Resources(cpus=1.5), ["CPUQuota=150%"]),
        (Resources(cpus=0.001), ["CPUQuota=1%"]),
    ],
)
def test_the_resources_of_a_task_are_limits_of_its_unit(resources: Resources | None, properties: list[str]) -> None:
    command = unit(["python"], "tidegate-x", Path("/log"), {}, user=False, resources=resources)

    given = [part.removeprefix("--property=") for part in command if part.startswith("--property=")]
    assert given[2:] == properties


def test_systemd_is_told_where_the_bus_of_the_user_is(tmp_path: Path) -> None:
    daemon = {"PATH": "/bin", "TIDEGATE_POSTGRES_DSN": "secret"}

    assert for_systemd(daemon, tmp_path) == {"PATH": "/bin", "XDG_RUNTIME_DIR": str(tmp_path)}
    assert for_systemd({**daemon, "XDG_RUNTIME_DIR": "/own"}, tmp_path) == {"PATH": "/bin", "XDG_RUNTIME_DIR": "/own"}
    assert for_systemd(daemon, tmp_path / "missing") == {"PATH": "/bin"}


def test_a_refusal_is_logged_once() -> None:
    launch.report.cache_clear()
    with capture_logs() as entries:
        for _ in range(3):
            launch.report("Failed to connect to bus: No medium found")

    assert [(entry["event"], entry["error"]) for entry in entries] == [
        ("task_unit_refused", "Failed to connect to bus: No medium found")
    ]
    launch.report.cache_clear()
