"""The limits of a task: its memory, which the runner watches, and its processors, to which it is bound.

In a unit of its own systemd also enforces both: a task that allocates faster than the runner checks is ended by the kernel there.
"""

import math
import os
import random
from contextlib import suppress
from pathlib import Path
from uuid import UUID

from tidegate.daemon.spark.launch import unit_name
from tidegate.daemon.spark.process import Identity, alive, descendants, stamped

CHECK_EVERY_S = 0.25
APART_EVERY = 40
"""Checks between two searches for processes that left the tree of the runner."""

_PROC = Path("/proc")
_CGROUPS = Path("/sys/fs/cgroup")
_ROUGH = ("RssAnon", "RssShmem", "VmSwap")
_EXACT = ("Pss_Anon", "Pss_Shmem", "SwapPss")


class MemoryLimit:
    """The limit of the processes of a task together, with their runner.

    Counted is what the kernel cannot take back: anonymous and shared memory, also in swap. Memory that they share counts once.
    """

    def __init__(self, submission_id: UUID, limit_mb: int) -> None:
        self._submission_id = submission_id
        self._limit_mb = limit_mb
        self._checks = 0
        self._apart: list[Identity] = []

    def problem(self) -> str | None:
        """Why the task has to end; None within the limit, and while the task has all descriptors of this process."""
        pids: set[int] = set()
        with suppress(OSError):
            pids = self._pids()
        # Memory that processes share counts for each of them here; to count it once takes longer.
        if _sum(pids, "status", _ROUGH) <= self._limit_mb << 10:
            return None
        used_kb = _sum(pids, "smaps_rollup", _EXACT)
        return None if used_kb <= self._limit_mb << 10 else over(used_kb >> 10, self._limit_mb)

    def _pids(self) -> set[int]:
        if self._checks % APART_EVERY == 0:
            self._apart = list(stamped(self._submission_id))
        self._checks += 1
        return {os.getpid(), *descendants(os.getpid()), *(process.pid for process in self._apart if alive(process))}


def bind_processors(cpus: float) -> None:
    """Bind this thread, and the processes that it starts, to this number of the processors that it may use."""
    allowed = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, random.sample(allowed, min(len(allowed), math.ceil(cpus))))


def own_cgroup(submission_id: UUID) -> Path | None:
    """The cgroup of the unit of this runner; None if it runs without a unit of its own."""
    with suppress(OSError):
        for line in (_PROC / "self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers and path.endswith(f"/{unit_name('execute', submission_id)}.service"):
                return _CGROUPS / path.lstrip("/")
    return None


def has_kernel_killed(cgroup: Path) -> bool:
    """Whether the kernel has ended a process of the cgroup for lack of memory."""
    with suppress(OSError):
        events = (cgroup / "memory.events").read_text().splitlines()
        return any(line.startswith("oom_kill ") and line != "oom_kill 0" for line in events)
    return False


def over(used_mb: int, limit_mb: int) -> str:
    """The reason of an attempt that used too much."""
    return f"it used {size(used_mb)} of memory; its limit is {size(limit_mb)}: change memory in its resources, or its work"


def size(mebibytes: int) -> str:
    """`700 MiB` or `2.5 GiB`."""
    return f"{mebibytes} MiB" if mebibytes < 1 << 10 else f"{mebibytes / (1 << 10):.1f} GiB".replace(".0 ", " ")


def _sum(pids: set[int], name: str, fields: tuple[str, ...]) -> int:
    """The sum of these fields of a file of each process, in KiB. Processes that have ended hold nothing."""
    return sum(_field_sum(_PROC / str(pid) / name, fields) for pid in pids)


def _field_sum(path: Path, fields: tuple[str, ...]) -> int:
    with suppress(OSError):
        # The name of a process, in the first line, may have any bytes but line feeds.
        lines = (line.partition(":") for line in path.read_bytes().decode(errors="replace").split("\n"))
        return sum(int(value.split()[0]) for name, _, value in lines if name in fields)
    return 0
