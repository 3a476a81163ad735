"""In which order the files of tests are run, and which of them count for coverage."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent

FIRST: Sequence[str] = (
    "storms/test_storm.py",
    "acceptance/test_submission_kill_points.py",
    "integration/model/test_model.py",
    "storms/limits/test_limits.py",
    "simulation/test_simulation.py",
    "acceptance/test_servers_away.py",
    "failover/test_primary.py",
    "acceptance/test_full_disks.py",
    "integration/events/test_outages.py",
    "acceptance/test_secured_servers.py",
    "acceptance/test_backfill_killed.py",
    "acceptance/test_backfills.py",
    "integration/engine/test_cascade.py",
    "acceptance/test_documents.py",
    "acceptance/test_running_applications.py",
    "integration/spark/test_contract.py",
    "failover/test_losses.py",
    "integration/spark/test_connect.py",
    "storms/hostile/test_hostile.py",
    "storms/runners/test_runners.py",
    "integration/engine/test_lives.py",
    "acceptance/test_standalone.py",
    "integration/standalone/test_server.py",
    "integration/standalone/test_spark_connect.py",
    "integration/brokers/test_quorum.py",
    "acceptance/test_bad_input.py",
    "acceptance/test_batch_hosts.py",
    "integration/example/test_week.py",
    "fuzz/test_doors.py",
    "unit/test_documents.py",
    "unit/airflow_import/test_accounting.py",
    "unit/schemas/timetable/test_zones.py",
)
"""Files that take half a minute or more, and three of `unit/` that take as long as a hundred of its others.

Storms alternate with others, since three storms at once need more than two cores.
"""

FIRST_OF_LONG: Sequence[str] = (
    "unit/schemas/timetable/test_zones.py",
    "integration/engine/test_lives.py",
    "simulation/test_simulation.py",
    "integration/model/test_model.py",
    "fuzz/test_doors.py",
)
"""Files that `make test-long` runs for half an hour or more. They need one core each."""

LAST = "unit"
"""Short files, which fill the gaps at the end."""

COUNTED = (
    "unit/handlers",
    *(
        f"integration/engine/test_{subject}.py"
        for subject in (
            "admission_faults",
            "backfills",
            "by_time",
            "changed_version",
            "consumers",
            "held_dags",
            "locked_rows",
            "mapped",
            "marked",
            "run_life",
            "run_size",
            "take_over",
            "too_slow",
            "why_not",
        )
    ),
    "integration/ingest/test_containment.py",
    "integration/ingest/test_locked_rows.py",
    "integration/cli/test_why_not_dags.py",
)
"""The tests that together reach every branch of the gate. Tracing doubles the CPU time of a test, so the others do without.

A branch that these do not reach, although a test does, is counted by the file of that test.
"""

UNCOUNTED = ("_properties.py",)
"""What draws at random reaches a branch by chance, which the gate must not depend on."""


def rank(file: Path, *, long: bool = False) -> int:
    name = _name(file)
    first = (*FIRST_OF_LONG, *FIRST) if long else FIRST
    return first.index(name) if name in first else len(first) + name.startswith(LAST)


def counts_for_coverage(file: Path) -> bool:
    name = _name(file)
    return name.startswith(COUNTED) and not name.endswith(UNCOUNTED)


@cache
def _name(file: Path) -> str:
    """Of a test of a test, which lies elsewhere, the whole path."""
    return file.relative_to(HERE).as_posix() if file.is_relative_to(HERE) else str(file)
