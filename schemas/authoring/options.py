"""What every kind of task takes, as its author gives it and as it is serialised."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import Any, TypedDict

from tidegate.schemas.authoring.dataset import Dataset, Expression
from tidegate.schemas.authoring.duration import duration, limit
from tidegate.schemas.authoring.hooks import HOOKS, Deadline, Receivers, deadlines, hooks
from tidegate.schemas.dag import TriggerRule, WeightRule
from tidegate.schemas.error import DagError


class Options(TypedDict, total=False):
    """What every kind of task takes; the names and meanings are Airflow's.

    `retries`: tries after the first one. `retry_delay`: from the end of one try to the next, one minute by default;
    `retry_exponential_backoff`: the factor by which that grows from try to try, `max_retry_delay` at most (a day).
    `trigger_rule`: when its turn comes, given how the tasks before it ended.
    `execution_timeout`: how long a try may take.
    `pool`, `pool_slots`: where it waits for its turn, and how many slots it takes. `priority_weight`, `weight_rule`: what it
    weighs there. `max_active_tis_per_dag`, `max_active_tis_per_dagrun`: how many of its instances may work at a time.
    `depends_on_past`: only after the same task of the run before succeeded or was skipped; `wait_for_downstream`: and the tasks
    directly after that one too; `ignore_first_depends_on_past`: the first instance waits for nothing (the default).
    `start_date`, `end_date`: it is a part only of runs with a logical date from the one to the other.
    `outlets`: datasets that have new data once it succeeded.
    `deadlines`: by when it is to have ended, counted as those of its run. `on_success`, `on_failure`, `on_retry`, `on_timeout`,
    `on_deadline`: who is told when it succeeded, failed for good, failed and is tried again, took longer than
    `execution_timeout`, or missed a deadline.
    """

    retries: int
    retry_delay: timedelta
    retry_exponential_backoff: float
    max_retry_delay: timedelta
    trigger_rule: TriggerRule | str
    execution_timeout: timedelta | None
    pool: str
    pool_slots: int
    priority_weight: int
    weight_rule: WeightRule | str
    max_active_tis_per_dag: int | None
    max_active_tis_per_dagrun: int | None
    depends_on_past: bool
    wait_for_downstream: bool
    ignore_first_depends_on_past: bool
    start_date: datetime | None
    end_date: datetime | None
    outlets: Sequence[Dataset]
    deadlines: Sequence[Deadline]
    on_success: Receivers | None
    on_failure: Receivers | None
    on_retry: Receivers | None
    on_timeout: Receivers | None
    on_deadline: Receivers | None


def fields(where: str, options: Options) -> dict[str, Any]:
    """The options as fields of a task's serialised form. Raises DagError."""
    written = {}
    for option, value in options.items():
        if option not in _FIELDS:
            close = get_close_matches(option, _FIELDS, n=1)
            raise DagError(f"{where}: unknown option {option}{f'; did you mean {close[0]}?' if close else ''}")
        field, convert = _FIELDS[option]
        written[field] = convert(where, option, value)
    return written


def moment(where: str, option: str, value: object) -> datetime | None:
    """A time with its zone; None for none. Raises DagError."""
    if value is None:
        return None
    if not isinstance(value, datetime):
        raise DagError(f"{where}: {option} must be a datetime, not {value!r:.100}")
    if value.tzinfo is None:
        raise DagError(f"{where}: {option} has no time zone; write datetime(…, tzinfo=ZoneInfo('Europe/Zurich'))")
    return value


def outlets(where: str, option: str, value: object) -> tuple[str, ...]:
    """The URIs of datasets. Raises DagError."""
    if isinstance(value, Expression | str) or not isinstance(value, Iterable):
        raise DagError(f"{where}: {option} is a list of datasets, like outlets=[Dataset('lake://delays')]")
    for outlet in value:
        if not isinstance(outlet, Dataset):
            raise DagError(f"{where}: {option} are datasets, not {outlet!r:.100}")
    return tuple(outlet.uri for outlet in value)


def _one_of(kind: type[TriggerRule] | type[WeightRule]) -> Callable[[str, str, object], object]:
    def convert(where: str, option: str, value: object) -> object:
        names = [str(each) for each in kind]
        if value in names:
            return kind(str(value))
        close = get_close_matches(str(value), names, n=1)
        hint = f"; did you mean {close[0]}?" if close else f"; there are {', '.join(names)}"
        raise DagError(f"{where}: {value!r:.100} is no {option}{hint}")

    return convert


def _as_it_is(_where: str, _option: str, value: object) -> object:
    return value


_FIELDS: Mapping[str, tuple[str, Callable[[str, str, object], object]]] = {
    "retries": ("retries", _as_it_is),
    "retry_delay": ("retry_delay_s", duration),
    "retry_exponential_backoff": ("retry_factor", _as_it_is),
    "max_retry_delay": ("max_retry_delay_s", duration),
    "trigger_rule": ("trigger_rule", _one_of(TriggerRule)),
    "execution_timeout": ("execution_timeout_s", limit),
    "pool": ("pool", _as_it_is),
    "pool_slots": ("pool_slots", _as_it_is),
    "priority_weight": ("priority_weight", _as_it_is),
    "weight_rule": ("weight_rule", _one_of(WeightRule)),
    "max_active_tis_per_dag": ("max_active_per_dag", _as_it_is),
    "max_active_tis_per_dagrun": ("max_active_per_run", _as_it_is),
    "depends_on_past": ("depends_on_past", _as_it_is),
    "wait_for_downstream": ("wait_for_downstream", _as_it_is),
    "ignore_first_depends_on_past": ("ignore_first_depends_on_past", _as_it_is),
    "start_date": ("start_date", moment),
    "end_date": ("end_date", moment),
    "outlets": ("outlets", outlets),
    "deadlines": ("deadlines", deadlines),
    **{option: (option, hooks) for option in HOOKS},
}
"""By option, the field and how its value is checked; what is left as it is, is checked against the field's type later."""
