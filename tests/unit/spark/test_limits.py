"""The limits of a task: memory of real processes, the processors it is bound to, and what the kernel says of a unit."""

import errno
import logging
import os
import threading
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from tests.unit.spark.memory_of_child import findings_about
from tests.unit.spark.test_spool import prepared
from tidegate.daemon.spark.process import descendants
from tidegate.daemon.spark.runner import limits
from tidegate.daemon.spark.runner.attempt import Attempt
from tidegate.daemon.spark.runner.limits import bind_processors, has_kernel_killed, own_cgroup, size

HOLD = "import time; held = b'x' * (96 << 20); print(0, flush=True); time.sleep(600)"
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {HOLD!r}])"
APART = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {HOLD!r}], start_new_session=True)"
FORKING = """
import os, time
held = os.urandom(1 << 20) * 96
if child := os.fork():
    print(child, flush=True)
time.sleep(600)
"""
ID = UUID("5d9f3a52-6d0e-5e0b-9d0a-0d8f4f0b7c11")


@pytest.mark.parametrize("code", [PARENT, APART], ids=["a grandchild", "a process that has left the tree"])
def test_the_memory_of_all_processes_of_a_task_counts(code: str) -> None:
    found = findings_about(uuid4(), code)

    used_mb = int(str(found["over"]).removeprefix("it used ").partition(" MiB")[0])
    assert 90 <= used_mb - int(str(found["own_mb"])) <= 130
    assert found["within"] is None


def test_the_memory_of_another_task_does_not_count() -> None:
    found = findings_about(uuid4(), APART)

    assert found["over"] is not None
    assert found["of_another"] is None


def test_memory_that_processes_share_counts_once() -> None:
    found = findings_about(uuid4(), FORKING)

    assert int(str(found["rough_mb"])) >= 192
    assert int(str(found["exact_mb"])) < 150
    assert found["are_descendants"] is True
    assert found["within"] is None


def test_a_process_may_have_any_name() -> None:
    """A thread, which has a name and a status of its own."""
    found: list[int] = []

    def measure() -> None:
        Path("/proc/thread-self/comm").write_bytes(b"\xff\rRssAnon:")
        found.append(limits._field_sum(Path("/proc/thread-self/status"), limits._ROUGH))

    thread = threading.Thread(target=measure)
    thread.start()
    thread.join()
    assert [each > 0 for each in found] == [True]


def test_a_task_with_all_descriptors_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    limit, scan = limits.MemoryLimit(uuid4(), 1), os.listdir

    def refuse(_: object) -> list[str]:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "listdir", refuse)
    refused = limit.problem()
    monkeypatch.setattr(os, "listdir", scan)
    found = limit.problem()

    assert refused is None
    assert found is not None


def test_processes_that_are_gone_hold_nothing() -> None:
    assert limits._sum({2**22 + 1}, "status", limits._ROUGH) == 0
    assert list(descendants(2**22 + 1)) == []


@pytest.mark.parametrize(("cpus", "count"), [(0.5, 1), (1.0, 1), (10_000.0, None)])
def test_a_task_is_bound_to_as_many_processors_rounded_up(cpus: float, count: int | None) -> None:
    """In a thread of its own: only that thread is bound."""
    found: list[set[int]] = []

    def bind() -> None:
        bind_processors(cpus)
        found.append(os.sched_getaffinity(0))

    thread = threading.Thread(target=bind)
    thread.start()
    thread.join()
    allowed = os.sched_getaffinity(0)
    assert found[0] <= allowed
    assert len(found[0]) == (count or len(allowed))


def test_only_the_cgroup_of_its_own_unit_is_that_of_the_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_PROC", tmp_path)
    (tmp_path / "self").mkdir()
    unit = f"/user.slice/app.slice/tidegate-execute-{ID}.service"

    before = own_cgroup(ID)
    (tmp_path / "self/cgroup").write_text(f"4:memory:/elsewhere\n0::{unit}\n")

    assert before is None
    assert own_cgroup(ID) == Path(f"/sys/fs/cgroup{unit}")
    assert own_cgroup(uuid4()) is None


@pytest.mark.parametrize(("events", "killed"), [("oom 1\noom_kill 0\n", False), ("oom 1\noom_kill 2\n", True), (None, False)])
def test_the_kernel_tells_that_it_ended_a_process(tmp_path: Path, events: str | None, killed: bool) -> None:
    if events is not None:
        (tmp_path / "memory.events").write_text(events)

    assert has_kernel_killed(tmp_path) is killed


def test_the_end_of_a_process_by_the_kernel_is_added_by_the_runner_and_not_by_the_process_of_the_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    monkeypatch.setattr(limits, "own_cgroup", lambda _: tmp_path)
    (tmp_path / "memory.events").write_text("oom_kill 1\n")
    spool = prepared(tmp_path)
    job = spool.job()
    assert job is not None
    attempt = Attempt(spool, job)

    performed = attempt.perform()

    assert (performed.outcome, "the kernel" in performed.reason) == ("failed", False)
    assert attempt.explained(performed).reason.startswith(f"{performed.reason}; the kernel ended a process of the task")


def test_sizes_are_in_the_larger_unit() -> None:
    assert [size(mb) for mb in (700, 1024, 2560)] == ["700 MiB", "1 GiB", "2.5 GiB"]
