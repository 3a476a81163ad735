"""What a runner is started with."""

import sys
import threading
from pathlib import Path
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from tidegate.daemon.settings import Settings
from tidegate.daemon.spark import launch
from tidegate.daemon.spark.launch import environment, for_systemd, unit
from tidegate.daemon.spark.runner_backend import RunnerBackend
from tidegate.daemon.spark.spool import Spool
from tidegate.schemas.dag import Resources
from tidegate.schemas.error import RUNNERS, NotStartedError, UnavailableError

ID = UUID("5d9f3a52-6d0e-5e0b-9d0a-0d8f4f0b7c11")


def test_the_environment_is_reduced_to_what_programs_need_and_the_stamp() -> None:
    daemon = {
        "PATH": "/bin",
        "LC_ALL": "C.UTF-8",
        "TIDEGATE_POSTGRES_DSN": "secret",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "NOTIFY_SOCKET": "/n",
        "TIDEGATE_DAG_ENV": "STAGE,REGION",
        "STAGE": "test",
    }

    assert environment(daemon, Spool(Path("/spool"), ID)) == {
        "PATH": "/bin",
        "LC_ALL": "C.UTF-8",
        "STAGE": "test",
        "TASK_SUBMISSION_ID": str(ID),
        "TMPDIR": str(Path("/spool", "work", str(ID), "files")),
        "PYTHONUNBUFFERED": "1",
        "SPT_NOENV": "1",
        "PYSPARK_PYTHON": sys.executable,
    }


def with_program(folder: Path, name: str, script: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host where systemd runs, with this program or without it."""
    monkeypatch.setattr(launch, "SYSTEMD_RUNS", True)
    monkeypatch.setenv("PATH", str(folder))
    launch.report.cache_clear()
    if script is not None:
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)


@pytest.mark.parametrize(
    ("script", "error"),
    [
        (None, NotStartedError),
        ("echo 'Failed to connect to bus: No medium found' >&2; exit 1", NotStartedError),
        ("echo 'Failed to connect to user scope bus via local transport: Connection refused' >&2; exit 1", NotStartedError),
        ("echo 'Failed to start transient service unit: Connection timed out' >&2; exit 1", UnavailableError),
        ("exit 1", UnavailableError),
    ],
)
async def test_only_where_no_unit_can_be_under_way_a_start_that_failed_is_none(
    script: str | None, error: type[UnavailableError], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_program(tmp_path, "systemd-run", script, monkeypatch)
    spool = Spool(tmp_path, ID)
    spool.log.mkdir(parents=True)

    with pytest.raises(UnavailableError, match="cannot be written") as raised:
        await launch.start("execute", spool)

    assert (type(raised.value), raised.value.server) == (error, RUNNERS)


async def test_a_start_that_takes_too_long_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runner may start later."""
    with_program(tmp_path, "systemd-run", "exec /bin/sleep 60", monkeypatch)
    monkeypatch.setattr(launch, "LIMIT_S", 0.05)

    with pytest.raises(UnavailableError, match="has not started for") as raised:
        await launch.start("execute", Spool(tmp_path, ID))

    assert (type(raised.value), raised.value.server) == (UnavailableError, RUNNERS)


async def test_a_disk_that_hangs_holds_up_this_start_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers, answered = threading.Event(), list[bool]()
    monkeypatch.setattr(launch, "environment", lambda *_: answered.append(answers.wait(10)))
    monkeypatch.setattr(launch, "LIMIT_S", 0.05)

    with pytest.raises(UnavailableError, match="has not started for"):
        await launch.start("execute", Spool(tmp_path, ID))

    assert answered == [], "the event loop waited for the disk"
    answers.set()


async def test_without_systemd_a_start_that_failed_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "SYSTEMD_RUNS", False)
    spool = Spool(tmp_path, ID)
    spool.log.mkdir(parents=True)

    with pytest.raises(NotStartedError, match="cannot be written"):
        await launch.start("execute", spool)


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ("echo inactive; exit 3", NotStartedError),
        ("echo failed; exit 3", NotStartedError),
        ("echo activating; exit 3", UnavailableError),
        ("echo 'Failed to connect to bus' >&2; exit 1", UnavailableError),
        (None, UnavailableError),
    ],
)
async def test_a_unit_that_has_ended_without_a_claim_was_not_started(
    script: str | None, error: type[UnavailableError], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as with an environment of Python that an upgrade of the system has broken."""
    with_program(tmp_path, "systemctl", script, monkeypatch)
    monkeypatch.setattr("tidegate.daemon.spark.runner_backend.CLAIM_POLLS", 1)
    settings = Settings(postgres_dsn="", kafka_servers="", spool_dir=str(tmp_path))

    with pytest.raises(UnavailableError, match="no runner has claimed") as raised:
        await RunnerBackend("command", settings)._until_claimed(Spool(tmp_path, ID))

    assert type(raised.value) is error


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
