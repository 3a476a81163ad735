"""What the memory limit of a runner sees of a process that it started.

A program, because a process of the tests has other children, too.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from uuid import UUID

from tidegate.daemon.spark.process import STAMP, descendants, end_all
from tidegate.daemon.spark.runner import limits
from tidegate.daemon.spark.runner.limits import MemoryLimit

OTHER = UUID(int=7)
"""No process has this stamp."""


def main(submission_id: UUID, code: str) -> None:
    """Print the findings about a process that executes `code`, which prints the pid of one that it shares memory with, or 0."""
    own_mb = exact_mb({os.getpid()})
    with subprocess.Popen(
        [sys.executable, "-c", code], env=os.environ | {STAMP: str(submission_id)}, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        sharing = {process.pid, int(process.stdout.readline())} - {0}
        findings = {
            "own_mb": own_mb,
            "over": MemoryLimit(submission_id, own_mb + 64).problem(),
            "within": MemoryLimit(submission_id, own_mb + 200).problem(),
            "of_another": MemoryLimit(OTHER, own_mb + 64).problem(),
            "rough_mb": limits._sum(sharing, "status", limits._ROUGH) >> 10,
            "exact_mb": exact_mb(sharing),
            "are_descendants": sharing <= set(descendants(os.getpid())),
        }
        sys.stdout.write(json.dumps(findings))
        end_all(submission_id, 0)


def exact_mb(pids: set[int]) -> int:
    return limits._sum(pids, "smaps_rollup", limits._EXACT) >> 10


def findings_about(submission_id: UUID, code: str) -> dict[str, object]:
    """Of a new program, which has no other children."""
    program = [sys.executable, "-m", "tests.unit.spark.memory_of_child", str(submission_id), code]
    printed = subprocess.run(program, cwd=Path(__file__).parents[3], stdout=subprocess.PIPE, timeout=60, check=True).stdout
    findings: dict[str, object] = json.loads(printed)
    return findings


if __name__ == "__main__":
    main(UUID(sys.argv[1]), sys.argv[2])
