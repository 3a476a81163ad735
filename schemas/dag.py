"""What a DAG file may say, in its serialised form.

The authoring API (`tidegate.schemas.authoring.dag`) produces these shapes, a DAG file's sandbox sends them as JSON,
`dag_version.spec` stores them, and runs are pinned to them. Unknown fields are refused: a DAG file and the daemon that
reads it have one version. Durations are in seconds.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from tidegate.schemas.conditions.condition import ANY_TIME, MAX_SECONDS, Condition, DatasetSpec, Positive, Timing, Uri
from tidegate.schemas.receiver import Callback, DeadlineSpec
from tidegate.schemas.timetable.spec import Timetable

Name = Annotated[str, Meta(min_length=1, max_length=250, pattern=r"^[\w.-]+\Z")]
NonNegative = Annotated[float, Meta(ge=0, le=MAX_SECONDS)]
Count = Annotated[int, Meta(ge=1, le=100_000)]
Moment = Annotated[datetime, Meta(tz=True)]

DEFAULT_POOL = "default_pool"


class TriggerRule(StrEnum):
    """When a task's turn comes, given how the tasks directly before it ended."""

    ALL_SUCCESS = "all_success"
    ALL_FAILED = "all_failed"
    ALL_DONE = "all_done"
    ALL_DONE_MIN_ONE_SUCCESS = "all_done_min_one_success"
    ALL_SKIPPED = "all_skipped"
    ONE_SUCCESS = "one_success"
    ONE_FAILED = "one_failed"
    ONE_DONE = "one_done"
    NONE_FAILED = "none_failed"
    NONE_FAILED_MIN_ONE_SUCCESS = "none_failed_min_one_success"
    NONE_SKIPPED = "none_skipped"
    ALWAYS = "always"


class WeightRule(StrEnum):
    """What a task's weight in the queue is made of: its own priority and that of all tasks after it, before it, or its own."""

    DOWNSTREAM = "downstream"
    UPSTREAM = "upstream"
    ABSOLUTE = "absolute"


class BaseTask(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", forbid_unknown_fields=True, omit_defaults=True):
    """What every task has.

    `upstream` are ids of tasks of the same DAG. `retries` counts the tries after the first one. Between the end of try n and the
    next pass `retry_delay_s`; where `retry_factor` is above 1, between m and 2m seconds, m = retry_delay_s · factor^(n-1),
    never more than `max_retry_delay_s`.

    `weight` is what the task counts in its pool's queue, `priority_weight` by `weight_rule`; the authoring API works it out.
    `max_active_per_dag` and `max_active_per_run` limit how many instances of the task work at the same time. The task is a part
    only of runs with a logical date from `start_date` to `end_date`. A task with `teardown_of` runs once all before it are done
    if one of those setups succeeded; unless `on_failure_fail_run`, its own end does not matter to the run.
    `over` is the task before it whose result, a list, it is mapped over: it has one instance per element. `group` is the id of
    its task group, empty for none. `callbacks` are told what becomes of the task, `deadlines` say by when it is to have ended.
    """

    task_id: Name
    upstream: tuple[Name, ...] = ()
    group: str = ""
    trigger_rule: TriggerRule = TriggerRule.ALL_SUCCESS
    retries: Annotated[int, Meta(ge=0, le=1000)] = 0
    retry_delay_s: NonNegative = 60.0
    retry_factor: Annotated[float, Meta(ge=1, le=100)] = 1.0
    max_retry_delay_s: Positive = 86_400.0
    execution_timeout_s: Positive | None = None
    pool: Annotated[str, Meta(min_length=1, max_length=250)] = DEFAULT_POOL
    pool_slots: Count = 1
    priority_weight: Annotated[int, Meta(ge=-(2**31), lt=2**31)] = 1
    weight_rule: WeightRule = WeightRule.DOWNSTREAM
    weight: Annotated[int, Meta(ge=-(2**31), lt=2**31)] = 1
    max_active_per_dag: Count | None = None
    max_active_per_run: Count | None = None
    depends_on_past: bool = False
    wait_for_downstream: bool = False
    ignore_first_depends_on_past: bool = True
    start_date: Moment | None = None
    end_date: Moment | None = None
    is_setup: bool = False
    teardown_of: tuple[Name, ...] = ()
    on_failure_fail_run: bool = False
    over: Name | None = None
    outlets: tuple[Uri, ...] = ()
    callbacks: tuple[Callback, ...] = ()
    deadlines: tuple[DeadlineSpec, ...] = ()


class EmptyTask(BaseTask, frozen=True, kw_only=True, tag="empty"):
    """Does nothing; ends as soon as its turn comes, without a submission."""


class FunctionTask(BaseTask, frozen=True, kw_only=True, tag="function"):
    """A Python function of the DAG file, called in the runner as `function(spark, run)` on a Spark Connect session."""


class SqlTask(BaseTask, frozen=True, kw_only=True, tag="sql"):
    """One SQL statement on Spark Connect; a Jinja template over the run (`run`, `run_id`, `params`)."""

    sql: Annotated[str, Meta(min_length=1)]


class SubmitTask(BaseTask, frozen=True, kw_only=True, tag="submit"):
    """A spark-submit application: path relative to the DAG folder, arguments and conf values are Jinja templates."""

    application: Annotated[str, Meta(min_length=1)]
    args: tuple[str, ...] = ()
    conf: dict[str, str] = {}


class CommandTask(BaseTask, frozen=True, kw_only=True, tag="command"):
    """A local program: argv without a shell; arguments are Jinja templates."""

    argv: Annotated[tuple[str, ...], Meta(min_length=1)]
    env: dict[str, str] = {}


TaskSpec = EmptyTask | FunctionTask | SqlTask | SubmitTask | CommandTask

BACKENDS: Mapping[str, str] = {
    "function": "spark-connect",
    "sql": "spark-connect",
    "submit": "spark-submit",
    "command": "command",
}
"""The backend that runs each kind of task; an empty one needs none."""


def kind_of(task: BaseTask) -> str:
    """As the serialised form names it."""
    return str(task.__struct_config__.tag)


class ParamSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A parameter: its JSON Schema, and the value where a run is given none; unset where it must be given one."""

    default: Any | msgspec.UnsetType = msgspec.UNSET
    schema: dict[str, Any] = {}


class DagSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A whole DAG. `tasks` are in topological order; a task's index in it is its identity inside a version.

    `timetable` plans runs by time, with logical dates from `start_date` to `end_date`; `missed` says which of those that could
    not start in time still do, `missed_per_minute` how fast; `run_immediately` is as in `tidegate.schemas.timetable.tick.Bounds`.
    `max_active_runs` of its runs work at the same time, in each of them `max_active_tasks` tasks. A run that takes longer than
    `run_timeout_s` fails. After `max_failed_runs` failed runs in a row the DAG is paused; 0: never. `fail_fast`: the first task
    that fails ends its run. `callbacks` are told what becomes of its runs, `deadlines` say by when those are to have ended.

    `schedule` is the condition over datasets, `timing` when it counts. `mode`: a run of all events that wait, or of each one.
    `together`: the ticks of the timetable make runs only while the condition holds; else both make runs of their own.
    `datasets` are the ones it describes beyond their URI.
    `on_paused`: what comes while the DAG is paused is not kept for it, or it is. `missed="all"` is catch-up, of events too.
    """

    dag_id: Name
    description: str = ""
    schedule: Condition | None = None
    timing: Timing = ANY_TIME
    mode: Literal["batch", "each"] = "batch"
    together: bool = False
    on_paused: Literal["drop", "keep"] = "drop"
    timetable: Timetable | None = None
    start_date: Moment | None = None
    end_date: Moment | None = None
    missed: Literal["skip", "latest", "all"] = "latest"
    missed_per_minute: Count | None = None
    run_immediately: bool | None = None
    max_active_runs: Count = 16
    max_active_tasks: Count = 16
    run_timeout_s: Positive | None = None
    max_failed_runs: Annotated[int, Meta(ge=0, le=100_000)] = 0
    fail_fast: bool = False
    params: dict[str, ParamSpec] = {}
    callbacks: tuple[Callback, ...] = ()
    deadlines: tuple[DeadlineSpec, ...] = ()
    tags: tuple[str, ...] = ()
    datasets: tuple[DatasetSpec, ...] = ()
    tasks: tuple[TaskSpec, ...] = ()


class ImportProblem(msgspec.Struct, frozen=True, kw_only=True):
    """Why a DAG file gave no DAGs: what a user needs to mend it. `line` is 1-based, None where no line is to blame."""

    reason: str
    line: int | None = None


class ParsedFile(msgspec.Struct, frozen=True, kw_only=True):
    """What parsing one DAG file gave.

    `digest` is the SHA-256 of the content in hex, None when the file is gone. `source` is the content itself, stored
    with each version. Exactly one of these holds: the file is gone, `problem` is set, or `dags` is the (possibly empty)
    truth.
    """

    path: str
    digest: str | None
    source: str = ""
    dags: tuple[DagSpec, ...] = ()
    problem: ImportProblem | None = None
    duration_s: float = 0.0


encode_spec = msgspec.json.Encoder(order="sorted").encode
