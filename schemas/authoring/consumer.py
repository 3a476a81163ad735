"""What a DAG may say of the datasets it consumes, beyond what the shapes alone say."""

from tidegate.schemas.authoring.dataset import MAX_NESTING, nesting
from tidegate.schemas.conditions.condition import ANY_TIME, AllOf, AnyOf, Condition, DatasetRef, NOf, PatternRef, Timing, inputs
from tidegate.schemas.conditions.filter_syntax import parse
from tidegate.schemas.conditions.pattern import problem
from tidegate.schemas.dag import DagSpec
from tidegate.schemas.error import DagError, FilterError
from tidegate.schemas.timetable.wallclock import zone


def check_consumer(where: str, spec: DagSpec) -> None:
    """Raises DagError."""
    if spec.schedule is not None:
        _check_condition(where, spec.schedule)
        _check_timing(where, spec.timing)
    elif spec.timing != ANY_TIME or spec.mode != "batch" or spec.together:
        raise DagError(f"{where}: timing, mode and DatasetsAndTime are about datasets, and its schedule names none")
    if spec.mode == "each":
        _check_each(where, spec)
    if spec.together and spec.timetable is None:
        raise DagError(f"{where}: DatasetsAndTime needs a time")
    if spec.together and spec.timing.deadline is not None:
        raise DagError(f"{where}: with DatasetsAndTime the time itself is the deadline; leave out deadline=")


def _check_condition(where: str, condition: Condition) -> None:
    if nesting(condition) > MAX_NESTING:
        raise DagError(f"{where}: its schedule is nested deeper than {MAX_NESTING} levels")
    for leaf in inputs(condition):
        if isinstance(leaf, PatternRef) and (wrong := problem(leaf.pattern)) is not None:
            raise DagError(f"{where}: pattern {leaf.pattern}: {wrong}")
        try:
            if leaf.where:
                parse(leaf.where)
        except FilterError as error:
            raise DagError(f"{where}: where: {error}") from None
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
        raise DagError(f"{where}: a deadline is either after so long or at a time")
    try:
        zone(deadline.timezone if deadline else "UTC")
    except ValueError as error:
        raise DagError(f"{where}: {error}") from None


def _check_each(where: str, spec: DagSpec) -> None:
    if not isinstance(spec.schedule, DatasetRef):
        raise DagError(f"{where}: mode='each' makes a run of each event of one dataset; its schedule is a condition over several")
    timing = spec.timing
    if spec.together or timing.within_s or timing.quiet_for_s or timing.deadline:
        raise DagError(f"{where}: mode='each' does not go with DatasetsAndTime, within, quiet_for or deadline")
