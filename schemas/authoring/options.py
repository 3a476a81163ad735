"""The options that every kind of task takes, and how each is serialised."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypedDict

from tidegate.schemas.authoring.arguments import Texts, aware_datetime, environment, in_order, limit_seconds, seconds
from tidegate.schemas.authoring.callbacks import CALLBACK_OPTIONS, Deadline, Receivers, callback_options, deadline_specs
from tidegate.schemas.authoring.dataset import Dataset, Expression
from tidegate.schemas.authoring.mistakes import notable
from tidegate.schemas.authoring.resources import ResourceLimits, resources
from tidegate.schemas.dag import TriggerRule, WeightRule
from tidegate.schemas.error import DagError, did_you_mean

_CLUSTER = re.compile(r"[\w.-]{1,250}")


class Options(TypedDict, total=False):
    """Options of every kind of task. Names and meanings are Airflow's; durations are timedeltas up to ten years.

    `retries`: tries after the first one; default 0. `retry_delay`: from the end of a try to the next one; default 1 minute.
    `retry_exponential_backoff`: the factor, up to 100, by which the delay m grows with each try; above 1 the delay is
    random between m and 2m. Default 1.
    `max_retry_delay`: the longest delay that grows; default 1 day.
    `trigger_rule`: which states of its upstream tasks start it; default `all_success`.
    `execution_timeout`: the longest duration of a try, which then fails; default None, no limit.
    `resources`: the memory and the processors that a try may use on its host, like {'memory': '2g', 'cpus': 1.5}; a try that
    uses more memory fails. Default None, no limit.
    `pool`, `pool_slots`: the pool whose slots it takes, and how many; default `default_pool` and 1.
    `priority_weight`, `weight_rule`: its priority among waiting tasks; default 1 and `downstream`, which adds the priorities
    of all tasks after it.
    `max_active_tis_per_dag`, `max_active_tis_per_dagrun`: how many of its instances may be active at once in all runs of the
    DAG, and in one run; default None, no limit.
    `depends_on_past`: start only after the same task of the previous run succeeded or was skipped; default False.
    `wait_for_downstream`: wait for the tasks directly after that one as well; default False.
    `ignore_first_depends_on_past`: it does not wait for a previous run that lacks it; default True. The first run never waits.
    `start_date`, `end_date`: the first and the last logical date of the runs it is part of; default None, all runs. Runs without
    a logical date have it.
    `outlets`: datasets that are updated when it succeeds; default none.
    `deadlines`: times by which it must have ended, as those of its run; default none.
    `on_success`, `on_failure`, `on_retry`, `on_timeout`, `on_deadline`: receivers of a notification when it succeeds, fails with
    no try left, fails and is retried, exceeds `execution_timeout`, or misses a deadline; default none.
    """

    retries: int
    retry_delay: timedelta
    retry_exponential_backoff: float
    max_retry_delay: timedelta
    trigger_rule: TriggerRule | str
    execution_timeout: timedelta | None
    resources: ResourceLimits | None
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


class SparkOptions(Options, total=False):
    """Options of tasks on Spark.

    `cluster`: its name in `TIDEGATE_SPARK_CLUSTERS`; default None, that of `TIDEGATE_SPARK_MASTER` and `TIDEGATE_SPARK_REMOTE`.
    """

    cluster: str | None


class ProgramOptions(Options, total=False):
    """Options of tasks that run a program or a function on the host.

    `env`: additional environment variables, whose texts are templates. `python`: the absolute path of the interpreter of an
    environment on the host, for functions with tidegate[daemon,spark] of the daemon's version; default None, that of the daemon.
    """

    env: Texts
    python: str | None


class SparkProgramOptions(SparkOptions, ProgramOptions, total=False):
    """Options of functions and applications. In `default_args`, each is for the tasks whose kinds have it."""


def default_fields(where: str, options: Options) -> dict[str, Any]:
    """The options of `default_args` as fields of task specs, those of all kinds among them. Raises DagError."""
    return spec_fields(where, options, _OF_KINDS)


def defaults_for(fields: Mapping[str, Any], more: Iterable[str]) -> dict[str, Any]:
    """The fields of `default_args` that a task has whose kind has the options `more`."""
    others = {field for option, (field, _) in _OF_KINDS.items() if option not in more}
    return {field: value for field, value in fields.items() if field not in others}


def spec_fields(where: str, options: Options, more: Iterable[str] = ()) -> dict[str, Any]:
    """The options as fields of a task spec. `more` names the options of its kind.

    Raises DagError for an unknown option or an invalid value.
    """
    known = {**_FIELDS, **{option: _OF_KINDS[option] for option in more}}
    if not isinstance(options, Mapping):
        raise DagError(f"{where} is a dict of options like {{'retries': 2}}, not {options!r:.100}")
    fields = {}
    for option, value in options.items():
        with notable():
            if option not in known:
                raise DagError(f"{where}: unknown option {option}{did_you_mean(str(option), known)}")
            field, convert = known[option]
            fields[field] = convert(where, option, value)
    return fields


def _outlet_uris(where: str, option: str, value: object) -> tuple[str, ...]:
    if isinstance(value, Expression | str) or not isinstance(value, Iterable):
        raise DagError(f"{where}: {option} is a list of datasets, like outlets=[Dataset('lake://delays')]")
    for outlet in value:
        if not isinstance(outlet, Dataset):
            raise DagError(f"{where}: {option} are datasets, not {outlet!r:.100}")
    return tuple(outlet.uri for outlet in in_order(value))


def _one_of(kind: type[TriggerRule] | type[WeightRule], where: str, option: str, value: object) -> object:
    names = [str(member) for member in kind]
    if isinstance(value, str) and value in names:
        return kind(value)
    hint = did_you_mean(str(value), names) or f"; there are {', '.join(names)}"
    raise DagError(f"{where}: {value!r:.100} is no {option}{hint}")


def _cluster(where: str, option: str, value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str) or not _CLUSTER.fullmatch(value):
        raise DagError(f"{where}: {option} {value!r:.100}: a name of TIDEGATE_SPARK_CLUSTERS is letters, digits, _, - or .")
    return value


def _interpreter(where: str, option: str, value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str) or not value.startswith("/") or not value.isprintable():
        raise DagError(
            f"{where}: {option} is the absolute path of an interpreter, like '/opt/etl/bin/python', not {value!r:.100}"
        )
    return value


def _unchanged(_where: str, _option: str, value: object) -> object:
    return value


_FIELDS: Mapping[str, tuple[str, Callable[[str, str, object], object]]] = {
    "retries": ("retries", _unchanged),
    "retry_delay": ("retry_delay_s", seconds),
    "retry_exponential_backoff": ("retry_factor", _unchanged),
    "max_retry_delay": ("max_retry_delay_s", seconds),
    "trigger_rule": ("trigger_rule", partial(_one_of, TriggerRule)),
    "execution_timeout": ("execution_timeout_s", limit_seconds),
    "resources": ("resources", resources),
    "pool": ("pool", _unchanged),
    "pool_slots": ("pool_slots", _unchanged),
    "priority_weight": ("priority_weight", _unchanged),
    "weight_rule": ("weight_rule", partial(_one_of, WeightRule)),
    "max_active_tis_per_dag": ("max_active_per_dag", _unchanged),
    "max_active_tis_per_dagrun": ("max_active_per_run", _unchanged),
    "depends_on_past": ("depends_on_past", _unchanged),
    "wait_for_downstream": ("wait_for_downstream", _unchanged),
    "ignore_first_depends_on_past": ("ignore_first_depends_on_past", _unchanged),
    "start_date": ("start_date", aware_datetime),
    "end_date": ("end_date", aware_datetime),
    "outlets": ("outlets", _outlet_uris),
    "deadlines": ("deadlines", deadline_specs),
    **{option: (option, callback_options) for option in CALLBACK_OPTIONS},
}
"""By option, the field of the spec and the check of its value. `fits_type` checks the unchanged ones against the field's type."""

_OF_KINDS: Mapping[str, tuple[str, Callable[[str, str, object], object]]] = {
    "cluster": ("cluster", _cluster),
    "env": ("env", environment),
    "python": ("python", _interpreter),
}
"""As `_FIELDS`, the options of some kinds of tasks."""
