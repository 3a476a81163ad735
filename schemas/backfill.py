"""Backfills: what a user asks for, and how far one has come."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from tidegate.schemas.columns import Columns
from tidegate.schemas.state import BackfillState, DateState, RunState

LAST_PRIORITY = -1_000_000
"""The priority of a backfill whose tasks come after all others of their pools."""

MAX_PRIORITY = 1_000_000_000
DEFAULT_ACTIVE_RUNS = 10
MAX_ACTIVE_RUNS = 1_000
MAX_COUNT = 1_000_000_000
MAX_DESCRIPTION = 1000
MAX_LISTED_DATES = 10_000
"""The most dates of an explicit list."""

MAX_ORDINAL = 2**31 - 1
"""The largest number of a date."""


class Reprocess(StrEnum):
    """The existing runs that a backfill runs again: none, failed ones, or all that have ended."""

    NONE = "none"
    FAILED = "failed"
    COMPLETED = "completed"


class Outlets(StrEnum):
    """What the successful tasks of a backfill mean for the consumers of their outlets.

    `events`: the usual events. `none`: nothing. `cascade`: the usual events; and a run that consumed an outlet runs again after
    the run that updated it ran again. Its own consumers follow.
    """

    EVENTS = "events"
    NONE = "none"
    CASCADE = "cascade"


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a backfill. They are its own: the `max_active_runs` of its DAG does not count its runs.

    `max_active_runs` None: as many runs as the DAG has at once, at most DEFAULT_ACTIVE_RUNS. `max_active_tasks` limits the active
    tasks of all its runs together; None: no limit. `share`: the part of the slots of a pool that its tasks may occupy, more than
    0 and at most 1; at least one slot. `pool` replaces the pools of its tasks. `priority` is added to the weights of its tasks.
    After `max_failed_runs` failed dates it stops; 0: never.
    """

    max_active_runs: Annotated[int, Meta(ge=1, le=MAX_ACTIVE_RUNS)] | None = None
    max_active_tasks: Annotated[int, Meta(ge=1, le=MAX_COUNT)] | None = None
    share: Annotated[float, Meta(gt=0, le=1)] | None = None
    pool: str | None = None
    priority: Annotated[int, Meta(ge=-MAX_PRIORITY, le=MAX_PRIORITY)] = LAST_PRIORITY
    max_failed_runs: Annotated[int, Meta(ge=0, le=MAX_COUNT)] = 0


RANGES = {
    "max_active_runs": f"a whole number from 1 to {MAX_ACTIVE_RUNS}",
    "max_active_tasks": f"a whole number from 1 to {MAX_COUNT}",
    "share": "a number above 0 and up to 1",
    "pool": "the name of a pool",
    "priority": f"a whole number from {-MAX_PRIORITY} to {MAX_PRIORITY}",
    "max_failed_runs": f"a whole number from 0 to {MAX_COUNT}",
}
"""The values of each limit, in words."""


def read_limit(name: str, text: str) -> Any:
    """A limit as a user writes it: a share in percent. Raises ValueError, which says what to write."""
    try:
        given = str(float(text) / 100) if name == "share" else text
        found = getattr(msgspec.convert({name: given}, Limits, strict=False), name)
    except ValueError:
        found = None
    if found is None:
        raise ValueError(f"write {'a percentage above 0 and up to 100' if name == 'share' else RANGES[name]}")
    return found


class BackfillSpec(Limits, frozen=True, kw_only=True):
    """What a user asks for. The dates are `logical_dates`, or those of the DAG's timetable from `start_date` to `end_date`.

    `dag_params` is the conf of the runs. With `ignore_first_depends_on_past` the tasks of the first date do not wait for the run
    before it; those of later dates wait for the date before.
    """

    dag_id: str
    start_date: datetime
    end_date: datetime
    logical_dates: tuple[datetime, ...] | None = None
    dag_params: dict[str, Any] = msgspec.field(default_factory=dict)
    reprocess: Reprocess = Reprocess.NONE
    is_reverse: bool = False
    outlets: Outlets = Outlets.EVENTS
    description: str = ""
    ignore_first_depends_on_past: bool = False


FIRST_IGNORES = "its tasks do not wait for the run before it: ignore_first_depends_on_past is set"
"""Said of the first date."""


class SetLimits(Limits, frozen=True, kw_only=True):
    """The limits of a backfill that exists: each one has a value."""

    max_active_runs: Annotated[int, Meta(ge=1, le=MAX_ACTIVE_RUNS)] = DEFAULT_ACTIVE_RUNS


class BackfillView(BackfillSpec, frozen=True, kw_only=True):
    """A locked backfill. The number of its active runs has been decided.

    Its runs are those of its DAG, at stage 0, and later of each of `stages` in turn, consumers of its outlets. At such a stage,
    dates from `scanned` to `scan_until` may have consumers that were not looked for yet; `stage_version_id` is their version.
    Only runs that are due at `horizon` are planned. `planned_until` is the last planned date, `dates` the number of planned ones,
    and `is_planned` says that no more will be. `succeeded` to `cancelled` count the dates by state. With `stop_reason` it starts
    nothing more; `kills`: its running runs are ended, too. `was_cancelled`: by a user, and not retried since.
    """

    max_active_runs: int = DEFAULT_ACTIVE_RUNS
    id: int
    version_id: int
    horizon: datetime
    state: BackfillState = BackfillState.PLANNED
    planned_until: datetime | None = None
    dates: int = 0
    is_planned: bool = False
    succeeded: int = 0
    failed: int = 0
    skipped: int = 0
    cancelled: int = 0
    stop_reason: str = ""
    kills: bool = False
    was_cancelled: bool = False
    run_start_date: datetime | None = None
    run_end_date: datetime | None = None
    deleted: bool = False
    stages: tuple[str, ...] = ()
    stage: int = 0
    stage_version_id: int | None = None
    scanned: int = 0
    scan_until: int = 0

    @property
    def stage_dag_id(self) -> str:
        """The DAG whose runs it starts."""
        return self.stages[self.stage - 1] if self.stage else self.dag_id

    @property
    def has_begun_cascade(self) -> bool:
        """Whether runs of consumers may be dates of it."""
        return self.scan_until > 0


def limits_version(backfill: BackfillView) -> str:
    """A digest of the limits and the end of a backfill. The request of a user has the digest of the limits that it was shown."""
    limits = [getattr(backfill, name) for name in (*Limits.__struct_fields__, "end_date")]
    return sha256(msgspec.json.encode(limits)).hexdigest()[:16]


def default_active_runs(of_dag: int) -> int:
    """The limit of runs of a backfill that is given none: a DAG may rely on its own `max_active_runs`, which is `of_dag`."""
    return min(DEFAULT_ACTIVE_RUNS, of_dag)


class BackfillCapacity(NamedTuple):
    """What a backfill may start now. `active_tasks` of its runs are active.

    `share_slots`: the slots of a pool that its share allows; None: no limit. Its tasks occupy `occupied` slots of the pool.
    """

    id: int
    state: BackfillState
    max_active_runs: int
    max_active_tasks: int | None
    active_tasks: int
    share_slots: int | None
    occupied: int


class TaskCounts(msgspec.Struct, Columns, frozen=True):
    """The number of tasks of a run, and how many of them ended in these states."""

    tasks: int = 0
    tasks_succeeded: int = 0
    tasks_skipped: int = 0
    tasks_failed: int = 0


class EndedDate(NamedTuple):
    """An open date whose run has ended, with the tasks of the run."""

    ordinal: int
    state: DateState
    tasks: TaskCounts


class Retry(NamedTuple):
    """The run of a date that is to run again, with its tasks.

    `is_whole`: also if it succeeded. `was_cancelled`: the backfill ended it before. All tasks of both run again: the end of a run
    skips tasks that had not begun, whether others failed or not.
    """

    dag_run_id: int
    is_whole: bool
    logical_date: datetime
    was_cancelled: bool = False
    tasks: TaskCounts = TaskCounts()

    @property
    def has_failed(self) -> bool:
        """Whether it failed by itself: then only its failed tasks run again, and what follows them."""
        return not (self.is_whole or self.was_cancelled)


class BackfillActivity(NamedTuple):
    """The runs of a backfill that are running.

    `waiting` of them wait for the previous run, and for nothing else; the last of these comes at `waiting_until` in the order of
    the DAG's runs.
    """

    running: int = 0
    waiting: int = 0
    waiting_until: datetime | None = None


class ExistingRun(NamedTuple):
    """The run that a date has already."""

    id: int
    run_id: str
    state: RunState


class Consumer(NamedTuple):
    """A run that consumed an outlet. Its DAG orders its runs by `order_at`.

    `ordinal`: it is a date of the backfill already, and ran before the outlet was rewritten. `is_outdated`: it is running, and
    started before the outlet was rewritten.
    """

    order_at: datetime
    run: ExistingRun
    ordinal: int | None = None
    is_outdated: bool = False


def overlaps(one: BackfillView, start: datetime, end: datetime, dates: Sequence[datetime] | None) -> bool:
    """Whether a backfill and these dates may have one in common: a range has all dates from its start to its end."""
    if one.logical_dates is not None and dates is not None:
        return not set(one.logical_dates).isdisjoint(dates)
    if one.logical_dates is not None:
        return any(start <= date <= end for date in one.logical_dates)
    if dates is not None:
        return any(one.start_date <= date <= one.end_date for date in dates)
    return one.start_date <= end and start <= one.end_date
