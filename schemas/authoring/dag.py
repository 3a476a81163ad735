"""`Dag`, the entry point of the authoring API.

    from tidegate import Dag, Dataset

    flights, weather, delays = Dataset("lake://flights"), Dataset("lake://weather"), Dataset("lake://delays")

    with Dag("daily_delays", schedule=flights & weather, max_active_runs=4) as dag:

        @dag.task(retries=2)
        def join(spark, run): ...

        publish = dag.submit("publish", "publish.py", args=["--run", "{{ run_id }}"], outlets=[delays])
        join >> publish >> dag.empty("done")

Every mistake raises DagError at the line of the DAG file that makes it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from importlib import import_module
from types import TracebackType
from typing import Any, Literal, Never, Self, TypeVar, Unpack, overload

from tidegate.schemas.authoring.arguments import (
    Texts,
    aware_datetime,
    callable_with,
    client_mode,
    fits_type,
    limit_seconds,
    refuse_unknown,
    string_dict,
    string_tuple,
    time_zone,
    valid_name,
)
from tidegate.schemas.authoring.assembly import assemble_spec
from tidegate.schemas.authoring.callbacks import CallbackFunction, DagCallbacks, Deadline, Receivers, dag_time_zone
from tidegate.schemas.authoring.collection import collect
from tidegate.schemas.authoring.mistakes import notable
from tidegate.schemas.authoring.options import (
    Options,
    ProgramOptions,
    SparkOptions,
    SparkProgramOptions,
    default_fields,
    defaults_for,
    spec_fields,
)
from tidegate.schemas.authoring.params import param_specs
from tidegate.schemas.authoring.schedule import Schedule, in_time_zone, schedule_parts
from tidegate.schemas.authoring.task import PythonTask, Task, TaskGroup
from tidegate.schemas.authoring.trial import Trial, TrialOptions
from tidegate.schemas.authoring.validation import validate_schedule
from tidegate.schemas.dag import CommandTask, DagSpec, EmptyTask, FunctionTask, SqlTask, SubmitTask, TaskSpec
from tidegate.schemas.error import DagError

Function = TypeVar("Function", bound=Callable[..., Any])
AnyTask = TypeVar("AnyTask", bound=Task)


class Dag:
    """A pipeline: tasks, their order, and the schedule that starts its runs.

    `dag_id`: 1 to 250 letters, digits, `_`, `-` and `.`; unique in the installation.
    `schedule`: datasets, a time, or both (see `tidegate.schemas.authoring.schedule`). Default None: runs start only on request.
    `timezone`: the zone of cron expressions, presets and times of day; default UTC.
    `start_date`, `end_date`: the first and last logical date of runs by time, or tick with an `interval`; aware; default None.
    `catchup`: create every missed run; default False. Otherwise `missed` decides: `latest` (default) creates only the latest
    missed run, `skip` none. A tick less than a minute old is never missed.
    `max_missed_runs_per_minute`: rate limit of `catchup`; default None, no limit.
    `run_immediately`: the first run of a DAG without `start_date`: True is the tick before now, False waits for the next one.
    Default None: a tick less than a tenth of the period, or 5 minutes, ago. `timedelta` and `every` begin at once unless False.
    `description`, `tags`: for people; default empty.
    `max_active_runs`, `max_active_tasks`: how many runs, and tasks of each run, are active at once; others wait. Default 16.
    `dagrun_timeout`: the longest duration of a run, which then fails; default None, no limit.
    `max_consecutive_failed_dag_runs`: pause the DAG after this number of failed runs; default 0, never.
    `fail_fast`: end the run at the first failed task; default False.
    `allow_backfills`: whether users may create backfills; default True.
    `paused`: whether a new DAG begins paused; default False. Later versions leave the pause as users set it.
    `mode`: `batch` (default) creates one run of all pending events, `each` one run of every event, in order.
    `on_paused`: `drop` (default) discards events that arrive while the DAG is paused, `keep` leaves them pending.
    `default_args`: options for all tasks (see `SparkProgramOptions`) whose kinds have them; a task's own take precedence.
    `params`: parameters of the runs by name, as a default value or a `Param`.
    `extra_params`: whether the conf of a run may have keys that are no `params`; default False. Without `params` it may.
    `deadlines`: times by which a run must have ended; default none.
    `on_success`, `on_failure`, `on_timeout`, `on_deadline`: receivers of a notification when a run succeeds, fails, exceeds
    `dagrun_timeout` or misses a deadline: an `Email`, a `Webhook`, a function of the file, or a list of them; default none.

    Durations are timedeltas up to ten years. Every argument is checked at once and raises DagError; a cycle of tasks raises
    DagError at the end of the `with` block, or in `spec()`. Arguments described as templates are Jinja templates over `run`,
    `run_id` and `params`.
    """

    def __init__(
        self,
        dag_id: str,
        *,
        schedule: Schedule = None,
        timezone: str = "UTC",
        start_date: datetime | None = None,
        end_date: datetime | None = None,
        catchup: bool = False,
        missed: Literal["skip", "latest"] = "latest",
        max_missed_runs_per_minute: int | None = None,
        run_immediately: bool | None = None,
        description: str = "",
        max_active_runs: int = 16,
        max_active_tasks: int = 16,
        dagrun_timeout: timedelta | None = None,
        max_consecutive_failed_dag_runs: int = 0,
        fail_fast: bool = False,
        allow_backfills: bool = True,
        paused: bool = False,
        mode: Literal["batch", "each"] = "batch",
        on_paused: Literal["drop", "keep"] = "drop",
        default_args: SparkProgramOptions | None = None,
        params: Mapping[str, Any] | None = None,
        extra_params: bool = False,
        deadlines: Sequence[Deadline] = (),
        on_success: Receivers | None = None,
        on_failure: Receivers | None = None,
        on_timeout: Receivers | None = None,
        on_deadline: Receivers | None = None,
        tags: Iterable[str] = (),
        **unknown: Never,
    ) -> None:
        self.dag_id = dag_id
        where = self._where = f"DAG {dag_id!r}"
        self.tasks: dict[str, Task] = {}
        self._group: TaskGroup | None = None
        self._callbacks, self._head = DagCallbacks(timezone), DagSpec(dag_id=dag_id)
        refuse_unknown(where, unknown, Dag)
        with notable():
            valid_name("dag_id", dag_id)
            timezone = time_zone(where, timezone)
            condition, timing, timetable, together = schedule_parts(where, schedule, timezone, max_active_runs)
            self._callbacks = DagCallbacks(dag_time_zone(timezone, timetable))
            receivers = Options(on_success=on_success, on_failure=on_failure, on_timeout=on_timeout, on_deadline=on_deadline)
            self._head = fits_type(
                where,
                DagSpec(
                    dag_id=dag_id,
                    description=description,
                    schedule=condition,
                    timing=in_time_zone(where, timing, self._callbacks.timezone),
                    mode=mode,
                    together=together,
                    on_paused=on_paused,
                    timetable=timetable,
                    start_date=aware_datetime(where, "start_date", start_date),
                    end_date=aware_datetime(where, "end_date", end_date),
                    missed="all" if catchup else missed,
                    missed_per_minute=max_missed_runs_per_minute,
                    run_immediately=run_immediately,
                    max_active_runs=max_active_runs,
                    max_active_tasks=max_active_tasks,
                    run_timeout_s=limit_seconds(where, "dagrun_timeout", dagrun_timeout),
                    max_failed_runs=max_consecutive_failed_dag_runs,
                    fail_fast=fail_fast,
                    allow_backfills=allow_backfills,
                    paused=paused,
                    params=param_specs(where, params or {}, scheduled=condition is not None or timetable is not None),
                    extra_params=extra_params,
                    **self._callbacks.serialise(where, spec_fields(where, {**receivers, "deadlines": deadlines})),
                    tags=string_tuple(where, "tags", tags, takes_sets=True),
                ),
            )
            validate_schedule(where, self._head)
        self._default_args = default_fields(f"{where}: default_args", default_args or {})
        with notable():
            collect(dag_id, self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Check the complete DAG, unless the block raised."""
        if error is None:
            with notable():
                self.spec()

    def __repr__(self) -> str:
        return f"<Dag {self.dag_id}: {len(self.tasks)} tasks>"

    @overload
    def task(self, function: Function, /) -> PythonTask[Function]: ...

    @overload
    def task(
        self, function: None = None, /, *, task_id: str | None = None, **options: Unpack[SparkProgramOptions]
    ) -> Callable[[Function], PythonTask[Function]]: ...

    def task(
        self, function: Function | None = None, /, *, task_id: str | None = None, **options: Unpack[SparkProgramOptions]
    ) -> PythonTask[Function] | Callable[[Function], PythonTask[Function]]:
        """Decorate a Python function as a task, with or without options: `@dag.task` or `@dag.task(retries=2)`.

        `task_id` is the function's name by default. The runner calls the function with a Spark session and a `tidegate.Run`; its
        JSON result, up to 64 KiB, is available to the tasks after it. Raises DagError for a function that cannot be called so.
        """

        def decorate(function: Function) -> PythonTask[Function]:
            if not callable(function):
                raise DagError(f"{self._where}: @dag.task decorates a function, not {function!r:.100}")
            with notable():
                chosen = task_id if task_id is not None else getattr(function, "__name__", None)
                where, fields = self._new_task(chosen, options, "env", "python", "cluster")
                callable_with(where, function, "spark", "run")
                return self._add(PythonTask(self.dag_id, fits_type(where, FunctionTask(**fields)), function))
            return self._add(PythonTask(self.dag_id, FunctionTask(task_id=self._free_id()), function))

        return decorate if function is None else decorate(function)

    def sql(self, task_id: str, sql: str, **options: Unpack[SparkOptions]) -> Task:
        """Add a task that runs one SQL statement, a template, and logs 200 rows: Spark computes no more. Raises DagError."""
        with notable():
            where, fields = self._new_task(task_id, options, "cluster")
            return self._add_spec(where, SqlTask(sql=sql, **fields))
        return self._placeholder()

    def submit(
        self,
        task_id: str,
        application: str,
        *,
        args: Sequence[str] = (),
        conf: Texts = None,
        py_files: Sequence[str] = (),
        files: Sequence[str] = (),
        jars: Sequence[str] = (),
        packages: Sequence[str] = (),
        deploy_mode: Literal["client"] = "client",
        **options: Unpack[SparkProgramOptions],
    ) -> Task:
        """Add a task that submits an application with spark-submit.

        `application`: its path below the DAG folder. `conf`: Spark's configuration.
        `py_files`: modules, zip archives and folders of Python packages for the driver and the executors; `files`: other files
        for their working folders; `jars`: archives of Java classes. Each is a path below the DAG folder or an address with a
        scheme. `packages`: Maven coordinates. All but `application` are templates. `deploy_mode`: the driver runs on the host of
        the daemon, which follows and ends it. Raises DagError.
        """
        with notable():
            where, fields = self._new_task(task_id, options, "env", "python", "cluster")
            client_mode(where, deploy_mode)
            spec = SubmitTask(
                application=application,
                args=string_tuple(where, "args", args),
                conf=string_dict(where, "conf", conf),
                py_files=string_tuple(where, "py_files", py_files),
                files=string_tuple(where, "files", files),
                jars=string_tuple(where, "jars", jars),
                packages=string_tuple(where, "packages", packages),
                **fields,
            )
            return self._add_spec(where, spec)
        return self._placeholder()

    def command(self, task_id: str, argv: Sequence[str], *, cwd: str = "", **options: Unpack[ProgramOptions]) -> Task:
        """Add a task that starts a local program without a shell.

        `argv`: the program and its arguments. `cwd`: its working folder, relative to the DAG folder, which is the default.
        All are templates. Raises DagError.
        """
        with notable():
            where, fields = self._new_task(task_id, options, "env", "python")
            return self._add_spec(where, CommandTask(argv=string_tuple(where, "argv", argv), cwd=cwd, **fields))
        return self._placeholder()

    def empty(self, task_id: str, **options: Unpack[Options]) -> Task:
        """Add a task that does no work: it joins branches, or updates outlets. Raises DagError."""
        with notable():
            where, fields = self._new_task(task_id, options)
            return self._add_spec(where, EmptyTask(**fields))
        return self._placeholder()

    @contextmanager
    def group(self, group_id: str) -> Iterator[TaskGroup]:
        """Open a block whose tasks form a group; the group's id and a dot prefix their task ids. Groups may be nested.

        After the block, `task >> group >> task` links the group's first and last tasks. Raises DagError for an invalid id.
        """
        outer = self._group
        group = self._group = TaskGroup(valid_name(f"{self._where}: group_id", self._prefixed(group_id)), outer)
        try:
            yield group
        finally:
            self._group = outer

    @property
    def functions(self) -> dict[str, Callable[..., Any]]:
        """The Python functions of function tasks, by task id."""
        return {task_id: task.function for task_id, task in self.tasks.items() if isinstance(task, PythonTask)}

    @property
    def callback_functions(self) -> Mapping[str, CallbackFunction]:
        """The Python functions among the receivers of `on_…`, by name."""
        return self._callbacks.functions

    def spec(self) -> DagSpec:
        """The serialised DAG, its tasks in topological order. Raises DagError for a cycle."""
        return assemble_spec(self._where, self._head, self.tasks)

    def test(self, **options: Unpack[TrialOptions]) -> Trial:
        """Run the DAG in this process, without servers, on a clock of its own. Needs `tidegate[daemon]`. Raises DagError."""
        # This layer does not know what executes tasks.
        trial: Trial = import_module("tidegate.daemon.trial.run_dag").run_dag(self, **options)
        return trial

    def _new_task(self, task_id: object, options: Options, *more: str) -> tuple[str, dict[str, Any]]:
        """How error messages name a new task, and the fields of its options; `more` are those of its kind. Raises DagError."""
        checked_id = valid_name(f"{self._where}: task_id", self._prefixed(valid_name(f"{self._where}: task_id", task_id)))
        if checked_id in self.tasks:
            raise DagError(f"{self._where}: task_id {checked_id!r} is used twice; each task needs a name of its own")
        where = f"{self._where}, task {checked_id!r}"
        group = self._group.group_id if self._group else ""
        given = {**defaults_for(self._default_args, more), **spec_fields(where, options, more)}
        fields = self._callbacks.serialise(where, given)
        return where, {**fields, "task_id": checked_id, "group": group}

    def _prefixed(self, id_: str) -> str:
        return f"{self._group.group_id}.{id_}" if self._group else id_

    def _add_spec(self, where: str, spec: TaskSpec) -> Task:
        return self._add(Task(self.dag_id, fits_type(where, spec)))

    def _placeholder(self) -> Task:
        """A task in the place of one with a noted mistake, for the links of the file."""
        return self._add(Task(self.dag_id, EmptyTask(task_id=self._free_id())))

    def _free_id(self) -> str:
        return f"mistake-{len(self.tasks)}"

    def _add(self, task: AnyTask) -> AnyTask:
        self.tasks[task.task_id] = task
        if self._group:
            self._group.add(task)
        return task
