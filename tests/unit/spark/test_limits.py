"""The limits of a task: memory of real processes, the processors it is bound to, and what the kernel says of a unit."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from tidegate.daemon.spark.process import STAMP, end_all
from tidegate.daemon.spark.runner import limits
from tidegate.daemon.spark.runner.limits import MemoryLimit, bind_processors, descendants, has_kernel_killed, own_cgroup, size

HOLD = "import sys, time; held = b'x' * (96 << 20); print('held', flush=True); time.sleep(600)"
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


@pytest.fixture(params=[PARENT, APART], ids=["a grandchild", "a process that has left the tree"])
def held_by(request: pytest.FixtureRequest) -> Iterator[UUID]:
    """The submission of a process with 96 MiB."""
    submission_id = uuid4()
    with subprocess.Popen(
        [sys.executable, "-c", request.param], env=os.environ | {STAMP: str(submission_id)}, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield submission_id
        end_all(submission_id, 0)


def test_the_memory_of_all_processes_of_a_task_counts(held_by: UUID) -> None:
    own_mb = limits._sum({os.getpid()}, "smaps_rollup", limits._EXACT) >> 10

    problem = MemoryLimit(held_by, own_mb + 64).problem()

    assert problem is not None
    used_mb = int(problem.removeprefix("it used ").partition(" MiB")[0])
    assert 90 <= used_mb - own_mb <= 130
    assert MemoryLimit(held_by, own_mb + 200).problem() is None


def test_memory_that_processes_share_counts_once() -> None:
    with subprocess.Popen([sys.executable, "-c", FORKING], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        both = {parent.pid, child}
        own_mb = limits._sum({os.getpid(), *both}, "smaps_rollup", limits._EXACT) >> 10

        assert limits._sum(both, "status", limits._ROUGH) >> 10 >= 192
        assert limits._sum(both, "smaps_rollup", limits._EXACT) >> 10 < 150
        assert both <= set(descendants(os.getpid()))
        assert MemoryLimit(uuid4(), own_mb + 64).problem() is None
        os.kill(child, signal.SIGKILL)
        parent.kill()


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


def test_sizes_are_in_the_larger_unit() -> None:
    assert [size(mb) for mb in (700, 1024, 2560)] == ["700 MiB", "1 GiB", "2.5 GiB"]
