"""Rules of a DAG spec that span fields; the shapes check each field alone. Every check raises DagError."""

from collections.abc import Collection

from tidegate.schemas.authoring.arguments import aware_datetime, time_zone
from tidegate.schemas.authoring.dataset import checked_filter
from tidegate.schemas.conditions.condition import (
    ANY_TIME,
    MAX_NESTING,
    AllOf,
    AnyOf,
    Condition,
    DatasetRef,
    NOf,
    PatternRef,
    Timing,
    inputs,
    nesting,
)
from tidegate.schemas.conditions.pattern import pattern_problem
from tidegate.schemas.dag import BaseTask, DagSpec, EmptyTask
from tidegate.schemas.error import DagError
from tidegate.schemas.graph import MAX_TASKS
from tidegate.schemas.timetable.spec import Continuous, Timetable, validate


def validate_dag(spec: DagSpec) -> None:
    """Check a whole spec, which may come from a sandbox that is not trusted."""
    where = f"DAG {spec.dag_id!r}"
    _check_dates(where, spec)
    if len(spec.tasks) > MAX_TASKS:
        raise DagError(f"{where} has {len(spec.tasks)} tasks; at most {MAX_TASKS} are possible: make several DAGs of it")
    earlier: set[str] = set()
    for task in spec.tasks:
        if task.task_id in earlier:
            raise DagError(f"{where}: task_id {task.task_id!r} is used twice")
        _check_dates(f"{where}, task {task.task_id!r}", task)
        _check_upstream(f"{where}, task {task.task_id!r}", task, earlier)
        earlier.add(task.task_id)
    if spec.timetable is not None:
        _check_timetable(where, spec.timetable)
    validate_schedule(where, spec)


def validate_schedule(where: str, spec: DagSpec) -> None:
    """Check the condition over datasets, its timing, and their combination with the mode and the timetable."""
    if spec.schedule is not None:
        _check_condition(where, spec.schedule)
        _check_timing(where, spec.timing)
    elif spec.timing != ANY_TIME or spec.mode != "batch" or spec.together:
        raise DagError(f"{where}: timing, mode and DatasetsAndTime are about datasets, and its schedule names none")
    if spec.mode == "each":
        _check_one_run_per_event(where, spec)
    if spec.together and spec.timetable is None:
        raise DagError(f"{where}: DatasetsAndTime needs a time")
    if spec.together and isinstance(spec.timetable, Continuous):
        raise DagError(f"{where}: DatasetsAndTime needs times to compare the datasets with; leave out @continuous")
    if spec.together and spec.timing.deadline is not None:
        raise DagError(f"{where}: with DatasetsAndTime the time itself is the deadline; leave out deadline=")


def _check_dates(where: str, part: DagSpec | BaseTask) -> None:
    aware_datetime(where, "start_date", part.start_date)
    aware_datetime(where, "end_date", part.end_date)


def _check_upstream(where: str, task: BaseTask, earlier: Collection[str]) -> None:
    for task_id in task.upstream:
        if task_id not in earlier:
            raise DagError(f"{where}: no task {task_id!r} comes before it")
    if task.over is not None and task.over not in task.upstream:
        raise DagError(f"{where}: it is mapped over {task.over!r}, which does not come directly before it")
    if task.over is not None and isinstance(task, EmptyTask):
        raise DagError(f"{where}: an empty task does nothing with an element and cannot be mapped")
    if unlinked := set(task.teardown_of) - set(task.upstream):
        raise DagError(f"{where}: its setup {min(unlinked)!r} does not come directly before it")


def _check_timetable(where: str, timetable: Timetable) -> None:
    try:
        validate(timetable)
    except ValueError as error:
        raise DagError(f"{where}: {error}") from error


def _check_condition(where: str, condition: Condition) -> None:
    if nesting(condition) > MAX_NESTING:
        raise DagError(f"{where}: its schedule is nested deeper than {MAX_NESTING} levels")
    for leaf in inputs(condition):
        if isinstance(leaf, PatternRef) and (problem := pattern_problem(leaf.pattern)) is not None:
            raise DagError(f"{where}: pattern {leaf.pattern}: {problem}")
        checked_filter(where, leaf.where)
    _check_counts(where, condition)


def _check_counts(where: str, condition: Condition) -> None:
    if isinstance(condition, NOf) and condition.k > len(condition.of):
        raise DagError(f"{where}: n_of({condition.k}, …) can never hold: it has {len(condition.of)} operands")
    if isinstance(condition, AllOf | AnyOf | NOf):
        for operand in condition.of:
            _check_counts(where, operand)


def _check_timing(where: str, timing: Timing) -> None:
    if timing.max_wait_s is not None and timing.quiet_for_s is None:
        raise DagError(f"{where}: max_wait bounds how long a run waits for quiet, and there is no quiet_for")
    deadline = timing.deadline
    if deadline is not None and (deadline.after_s is None) == (deadline.at is None):
        raise DagError(f"{where}: a deadline needs exactly one of after= and at=")
    time_zone(where, deadline.timezone if deadline else "UTC")


def _check_one_run_per_event(where: str, spec: DagSpec) -> None:
    if not isinstance(spec.schedule, DatasetRef):
        raise DagError(f"{where}: mode='each' makes a run of each event of one dataset; its schedule is a condition over several")
    timing = spec.timing
    if spec.together or timing.within_s or timing.quiet_for_s or timing.deadline:
        raise DagError(f"{where}: mode='each' does not go with DatasetsAndTime, within, quiet_for or deadline")
