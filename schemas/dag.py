"""What a DAG file may say, in its serialised form.

The authoring API (`tidegate.schemas.authoring.dag`) produces these shapes, a DAG file's sandbox sends them as JSON,
`dag_version.spec` stores them, and runs are pinned to them. Unknown fields are refused: a DAG file and the daemon that
reads it have one version. Durations are in seconds.
"""

import re
from collections.abc import Mapping
from datetime import time
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from tidegate.schemas.conditions.condition import ANY_TIME, MAX_SECONDS, Condition, DatasetSpec, Positive, Timing, Uri
from tidegate.schemas.params import Params, ParamSpec
from tidegate.schemas.receiver import Callback
from tidegate.schemas.time_range import Moment
from tidegate.schemas.timetable.spec import Timetable
from tidegate.schemas.timetable.tick import Missed

Name = Annotated[str, Meta(min_length=1, max_length=250, pattern=r"^[\w.-]+\Z")]
ClusterName = Annotated[str, Meta(max_length=250, pattern=r"^[\w.-]*\Z")]
"""One of `TIDEGATE_SPARK_CLUSTERS`; empty for the default one."""
NonNegative = Annotated[float, Meta(ge=0, le=MAX_SECONDS)]
DeadlineSince = Literal["logical_date", "queued_at"]
Count = Annotated[int, Meta(ge=1, le=100_000)]

DEFAULT_POOL = "default_pool"
MIN_MEMORY_MB, MAX_MEMORY_MB, MAX_CPUS = 64, 1 << 26, 10_000


class TriggerRule(StrEnum):
    """When a task is ready, given the states of its direct upstream tasks."""

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
    """What `weight` adds to the priority of the task: those of all its downstream tasks, of all its upstream tasks, or none."""

    DOWNSTREAM = "downstream"
    UPSTREAM = "upstream"
    ABSOLUTE = "absolute"


MAX_MAP_LABEL = 250
"""The most characters of the path of a field that names instances of a mapped task."""


class Secret(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A secret by its name, as a value of `env=` or `conf=` of a task: `Secret("warehouse-password")`.

    The host that runs the task has the value in a file with that name. The runner reads it; it is never in Postgres, in Kafka or
    in the arguments of a process.
    """

    secret: Annotated[str, Meta(min_length=1, max_length=250, pattern=r"^(?!\.)[\w.-]+\Z")]


class Resources(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What the processes of a task on its host may use together: memory in MiB, and processors. None: no limit."""

    memory_mb: Annotated[int, Meta(ge=MIN_MEMORY_MB, le=MAX_MEMORY_MB)] | None = None
    cpus: Annotated[float, Meta(gt=0, le=MAX_CPUS)] | None = None


class DeadlineSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The time by which a run or task must have ended: `after_s` after `since`, or `at`, a time of day in `timezone`.

    `at` is on the day of the run's logical date, or on the next day if that time had passed. A run without a logical date counts
    from its `run_after`.
    """

    name: Annotated[str, Meta(min_length=1, max_length=250)]
    after_s: Positive | None = None
    since: DeadlineSince = "logical_date"
    at: Annotated[time, Meta(tz=False)] | None = None
    timezone: str = "UTC"


class BaseTask(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", forbid_unknown_fields=True, omit_defaults=True):
    """The fields of every task.

    `upstream` are ids of tasks of the same DAG. `retries` counts the tries after the first one. `retry_delay_s` is the time from
    the end of a try to the next one. With `retry_factor` above 1, the delay after try n is between m and 2m seconds,
    m = retry_delay_s · factor^(n-1), and at most `max_retry_delay_s`.

    `weight` is the priority of the task in the queue of its pool; the authoring API computes it from `priority_weight` and
    `weight_rule`. `max_active_per_dag` and `max_active_per_run` limit how many instances of the task are active. Only runs with a
    logical date from `start_date` to `end_date` have the task. A teardown runs when all its upstream tasks have ended, if a setup
    in `teardown_of` succeeded; its end counts for the run only with `on_failure_fail_run`. A task mapped `over` an upstream task
    has one instance per element of the list which that task returns; `map_label` is the path of the field of an element that
    names its instance for people, such as `flight.day`. `group` is the id of its task group.
    `callbacks` name the receivers of notifications about the task. `deadlines` are the times by which it must have ended.
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
    resources: Resources | None = None
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
    map_label: Annotated[str, Meta(max_length=MAX_MAP_LABEL)] = ""
    outlets: tuple[Uri, ...] = ()
    callbacks: tuple[Callback, ...] = ()
    deadlines: tuple[DeadlineSpec, ...] = ()


class EmptyTask(BaseTask, frozen=True, kw_only=True, tag="empty"):
    """A task without work: it ends when it is ready, without a submission."""


class ProgramTask(BaseTask, frozen=True, kw_only=True):
    """The fields of tasks that run a program or a function on the host.

    `env`: added variables, whose texts are templates. `python`: an interpreter on the host; empty for that of the daemon.
    """

    env: dict[str, str | Secret] = {}
    python: Annotated[str, Meta(pattern=r"^(/.+)?\Z")] = ""


class FunctionTask(ProgramTask, frozen=True, kw_only=True, tag="function"):
    """A Python function of the DAG file, called in the runner as `function(spark, run)` on a Spark Connect session."""

    cluster: ClusterName = ""


class SqlTask(BaseTask, frozen=True, kw_only=True, tag="sql"):
    """One SQL statement on Spark Connect; a Jinja template over the run (`run`, `run_id`, `params`)."""

    sql: Annotated[str, Meta(min_length=1)]
    cluster: ClusterName = ""


class SubmitTask(ProgramTask, frozen=True, kw_only=True, tag="submit"):
    """A spark-submit application: a path below the DAG folder, with what Spark distributes to its driver and executors.

    `application_digest` is the SHA-256 in hex of an application in Python that the version keeps; empty for one that is read from
    the folder when the task runs.
    `args`, the texts of `conf` and the entries of the tuples are Jinja templates. `py_files`, `files` and `jars` are paths below
    the DAG folder, or addresses such as `s3a://bucket/lib.jar`; `packages` are Maven coordinates.
    """

    application: Annotated[str, Meta(min_length=1)]
    application_digest: Annotated[str, Meta(pattern=r"^([0-9a-f]{64})?\Z")] = ""
    args: tuple[str, ...] = ()
    conf: dict[str, str | Secret] = {}
    py_files: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    jars: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    cluster: ClusterName = ""

    @property
    def application_path(self) -> str:
        """The path of the application without its empty parts, as versions name the file."""
        return str(PurePosixPath(self.application))


class CommandTask(ProgramTask, frozen=True, kw_only=True, tag="command"):
    """A local program: argv without a shell; arguments are Jinja templates. `cwd`: its working folder, below the DAG folder."""

    argv: Annotated[tuple[str, ...], Meta(min_length=1)]
    cwd: str = ""


TaskSpec = EmptyTask | FunctionTask | SqlTask | SubmitTask | CommandTask

BACKENDS: Mapping[str, str] = {
    "function": "spark-connect",
    "sql": "spark-connect",
    "submit": "spark-submit",
    "command": "command",
}
"""The backend of each kind of task; an empty task needs none."""


def kind_of(task: BaseTask) -> str:
    """The `kind` of a task in the serialised form."""
    return str(task.__struct_config__.tag)


class DagSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A whole DAG. `tasks` are in topological order; a task's index is its identity inside a version.

    `timetable` plans runs by time, with logical dates from `start_date` to `end_date`. `missed` and `run_immediately` are as in
    `tidegate.schemas.timetable.tick.Bounds`; `missed="all"` is Airflow's `catchup`, for events too. At most `missed_per_minute`
    missed runs start per minute. `max_active_runs` and, in each run, `max_active_tasks` limit what is active. A run that takes
    longer than `run_timeout_s` fails. After `max_failed_runs` failed runs in a row the DAG is paused; 0: never. `fail_fast`: the
    first failed task ends its run. `allow_backfills`: users may create backfills. `paused`: a new DAG begins paused; users pause
    the others. `extra_params`: the conf of a run may have keys that are no `params`. `callbacks` name the receivers of
    notifications about runs. `deadlines` are the times by which runs must have ended.

    `schedule` is the condition over datasets, `timing` its times. `mode`: one run of all pending events, or one of each event.
    `together`: a tick of the timetable makes a run only if the condition is met; otherwise each makes runs of its own.
    `datasets` are those with a name or an extra. `on_paused`: events that arrive while the DAG is paused are discarded (`drop`),
    or stay pending (`keep`).
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
    missed: Missed = "latest"
    missed_per_minute: Count | None = None
    run_immediately: bool | None = None
    max_active_runs: Count = 16
    max_active_tasks: Count = 16
    run_timeout_s: Positive | None = None
    max_failed_runs: Annotated[int, Meta(ge=0, le=100_000)] = 0
    fail_fast: bool = False
    allow_backfills: bool = True
    paused: bool = False
    params: dict[str, ParamSpec] = {}
    extra_params: bool = False
    callbacks: tuple[Callback, ...] = ()
    deadlines: tuple[DeadlineSpec, ...] = ()
    tags: tuple[str, ...] = ()
    datasets: tuple[DatasetSpec, ...] = ()
    tasks: tuple[TaskSpec, ...] = ()

    @property
    def conf_params(self) -> Params:
        """What the conf of its runs may say."""
        return Params(self.params, extra=self.extra_params)


class ImportProblem(msgspec.Struct, frozen=True, kw_only=True):
    """Why a DAG file gave no DAGs, for the user who fixes it. `line` is 1-based, None where no line is at fault."""

    reason: str
    line: int | None = None


REPEAT_DIGEST = ""
"""Recorded for a file that has to be parsed again: no content has this digest, so watchers report the file again."""

AWAITED_DIGEST = "awaited"
"""Recorded for a file that is still being parsed, and reported again in the same way: its daemon may end before."""


ARCHIVE = ".zip"
"""How the names of archives with DAG files end."""


class ModuleSource(msgspec.Struct, frozen=True):
    """A module or an application below the DAG folder. `digest` is the SHA-256 of the file in hex."""

    path: str
    digest: str
    source: str


class DagFile(msgspec.Struct, frozen=True):
    """The file of a version of a DAG, the modules that its functions import, and its applications."""

    path: str
    source: str
    modules: tuple[ModuleSource, ...] = ()


class ParsedFile(msgspec.Struct, frozen=True, kw_only=True):
    """The result of parsing one DAG file: the file is gone, or has a `problem`, or defines exactly `dags`.

    `digest` is the SHA-256 of the content and of `imports` in hex, None if the file is gone, `REPEAT_DIGEST` to parse it again.
    `source` is the content, stored with each version. `imports` are the digests of the files that it depends on, by path;
    `modules` are the modules and the applications among them. An archive has its DAG files as `members`, and no DAGs.
    `is_awaited`: the parse goes on, and the problem and `AWAITED_DIGEST` say so; the file may be good.
    `uncompiled` is why a file does not compile that names no DAGs: it is broken if it had DAGs, and else no DAG file.
    `pauses_new`: all of its new DAGs begin paused.
    """

    path: str
    digest: str | None
    source: str = ""
    dags: tuple[DagSpec, ...] = ()
    problem: ImportProblem | None = None
    duration_s: float = 0.0
    imports: Mapping[str, str] = {}
    modules: tuple[ModuleSource, ...] = ()
    members: tuple["ParsedFile", ...] = ()
    is_awaited: bool = False
    uncompiled: ImportProblem | None = None
    pauses_new: bool = False


def archive_of(path: str) -> str | None:
    """The zip archive that a DAG file is in, by its path below the DAG folder; None for a file of a folder."""
    before, found, _ = f"/{path}".partition(f"{ARCHIVE}/")
    return f"{before[1:]}{ARCHIVE}" if found else None


encode_spec = msgspec.json.Encoder(order="sorted").encode

_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")


def contains_nul(encoded: bytes) -> bool:
    """Whether a text in this JSON has a NUL character, which Postgres does not store."""
    return b"u0000" in encoded and _NUL.search(encoded) is not None
