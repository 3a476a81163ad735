"""The runs that a DAG's timetable plans."""

from collections.abc import Sequence

from tidegate.daemon.cli.pages import output
from tidegate.daemon.read_model.plan import UTC_CLOCK, Planned
from tidegate.schemas.text import local
from tidegate.schemas.timetable.wallclock import zone

TITLES = ("LOGICAL DATE", "RUN AFTER")
INTERVAL_TITLES = ("INTERVAL START", "INTERVAL END")
NO_MORE = "its timetable plans no more runs"


def print_planned(runs: Sequence[Planned], clock: str) -> None:
    """A table of runs to come. It leaves out data intervals of no length, and local times where the zone is UTC."""
    with_intervals = any(run.data_interval_start != run.data_interval_end for run in runs)
    titles = (*TITLES[:1], *(INTERVAL_TITLES if with_intervals else ()), *TITLES[1:])
    if clock != UTC_CLOCK:
        titles = (*titles, *(f"{title} IN {clock}" for title in TITLES))
    output.table(titles, (_cells(run, clock, with_interval=with_intervals) for run in runs), empty=NO_MORE)


def _cells(run: Planned, clock: str, *, with_interval: bool) -> tuple[output.Cell, ...]:
    interval = (run.data_interval_start, run.data_interval_end) if with_interval else ()
    cells = (run.logical_date, *interval, run.run_after)
    if clock == UTC_CLOCK:
        return cells
    info = zone(clock)
    return (*cells, local(run.logical_date, info), local(run.run_after, info))
