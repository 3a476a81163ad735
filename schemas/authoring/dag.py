"""The authoring API: what a DAG file is written with.

    from tidegate import Dag, Dataset

    flights, weather, delays = Dataset("lake://flights"), Dataset("lake://weather"), Dataset("lake://delays")

    with Dag("daily_delays", schedule=flights & weather, max_active_runs=4) as dag:

        @dag.task(retries=2)
        def join(spark, run): ...

        publish = dag.submit("publish", "publish.py", args=["--run", "{{ run_id }}"], outlets=[delays])
        join >> publish >> dag.empty("done")

Every mistake raises DagError at the author's line.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, Unpack, overload

from tidegate.schemas.authoring.assembly import assembled
from tidegate.schemas.authoring.build import register
from tidegate.schemas.authoring.consumer import check_consumer
from tidegate.schemas.authoring.duration import limit
from tidegate.schemas.authoring.hooks import CallbackFunction, Deadline, Hooks, Receivers, clock_of
from tidegate.schemas.authoring.options import Options, fields, moment
from tidegate.schemas.authoring.params import specs
from tidegate.schemas.authoring.schedule import Schedule, split
from tidegate.schemas.authoring.task import PythonTask, Task, TaskGroup, check_function, checked, name, table, texts
from tidegate.schemas.authoring.timing import zoned
from tidegate.schemas.dag import CommandTask, DagSpec, EmptyTask, FunctionTask, SqlTask, SubmitTask, TaskSpec
from tidegate.schemas.error import DagError

Function = TypeVar("Function", bound=Callable[..., Any])
AnyTask = TypeVar("AnyTask", bound=Task)


class Dag:
    """A pipeline: tasks, their order, and what starts it.

    `schedule` is what starts its runs: datasets, time (see `tidegate.schemas.authoring.schedule`), both, or nothing but requests.
    Runs by time have logical dates from `start_date` to `end_date`; `catchup` starts all of those that were missed, else only the
    latest is, or none with `missed="skip"`; in a minute no more than `max_missed_runs_per_minute` of them. Without a start date a
    tick that has just passed still counts, unless `run_immediately` says otherwise.
    `max_active_runs` of its runs work at the same time, and in each `max_active_tasks` tasks; more of them wait. A run that takes
    longer than `dagrun_timeout` fails. After `max_consecutive_failed_dag_runs` failed ones the DAG is paused (0: never).
    `fail_fast`: the first failed task ends the run. `mode`: one run of all events that wait, or one of `each`, in order.
    `on_paused`: events that come while the DAG is paused are not kept for it, or they are. `default_args` are options for all its
    tasks. `params` are what the conf of its runs may say: by name a default, or a `Param` with a JSON Schema.
    `deadlines` say by when its runs are to have ended. `on_success`, `on_failure`, `on_timeout`, `on_deadline`: who is told when
    a run succeeded, failed, took longer than `dagrun_timeout`, or missed a deadline; an `Email`, a `Webhook`, a function of the
    file, or a list of them.

    Names (`dag_id`, `task_id`) are made of letters, digits, `_`, `-` and `.`. Texts marked so take Jinja templates over `run`,
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
        mode: Literal["batch", "each"] = "batch",
        on_paused: Literal["drop", "keep"] = "drop",
        default_args: Options | None = None,
        params: Mapping[str, Any] | None = None,
        deadlines: Sequence[Deadline] = (),
        on_success: Receivers | None = None,
        on_failure: Receivers | None = None,
        on_timeout: Receivers | None = None,
        on_deadline: Receivers | None = None,
        tags: Iterable[str] = (),
    ) -> None:
        self.dag_id = name("dag_id", dag_id)
        where = self._where = f"DAG {dag_id!r}"
        condition, timing, timetable, together = split(where, schedule, timezone, max_active_runs)
        self._hooks = Hooks(clock_of(timezone, timetable))
        told = Options(on_success=on_success, on_failure=on_failure, on_timeout=on_timeout, on_deadline=on_deadline)
        self._head = checked(
            where,
            DagSpec(
                dag_id=dag_id,
                description=description,
                schedule=condition,
                timing=zoned(where, timing, clock_of(timezone, timetable)),
                mode=mode,
                together=together,
                on_paused=on_paused,
                timetable=timetable,
                start_date=moment(where, "start_date", start_date),
                end_date=moment(where, "end_date", end_date),
                missed="all" if catchup else missed,
                missed_per_minute=max_missed_runs_per_minute,
                run_immediately=run_immediately,
                max_active_runs=max_active_runs,
                max_active_tasks=max_active_tasks,
                run_timeout_s=limit(where, "dagrun_timeout", dagrun_timeout),
                max_failed_runs=max_consecutive_failed_dag_runs,
                fail_fast=fail_fast,
                params=specs(where, params or {}, scheduled=condition is not None or timetable is not None),
                **self._hooks.serialised(where, fields(where, {**told, "deadlines": deadlines})),
                tags=texts(where, "tags", tags),
            ),
        )
        check_consumer(where, self._head)
        self._default_args = fields(f"{where}: default_args", default_args or {})
        self.tasks: dict[str, Task] = {}
        self._group: TaskGroup | None = None
        register(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Check the DAG as a whole, unless something else went wrong already."""
        if error is None:
            self.spec()

    def __repr__(self) -> str:
        return f"<Dag {self.dag_id}: {len(self.tasks)} tasks>"

    @overload
    def task(self, function: Function, /) -> PythonTask[Function]: ...

    @overload
    def task(
        self, function: None = None, /, *, task_id: str | None = None, **options: Unpack[Options]
    ) -> Callable[[Function], PythonTask[Function]]: ...

    def task(
        self, function: Function | None = None, /, *, task_id: str | None = None, **options: Unpack[Options]
    ) -> PythonTask[Function] | Callable[[Function], PythonTask[Function]]:
        """Make a Python function a task, named like the function unless `task_id` is given.

        The function is called with a Spark session and the run (a `tidegate.Run`), on Spark, when its turn comes.
        """

        def decorate(function: Function) -> PythonTask[Function]:
            if not callable(function):
                raise DagError(f"{self._where}: @dag.task decorates a function, not {function!r:.100}")
            chosen = task_id if task_id is not None else getattr(function, "__name__", None)
            where, given = self._new(chosen, options)
            check_function(where, function)
            return self._add(PythonTask(self.dag_id, checked(where, FunctionTask(**given)), function))

        return decorate if function is None else decorate(function)

    def sql(self, task_id: str, sql: str, **options: Unpack[Options]) -> Task:
        """One SQL statement on Spark. `sql` is a template."""
        where, given = self._new(task_id, options)
        return self._plain(where, SqlTask(sql=sql, **given))

    def submit(
        self,
        task_id: str,
        application: str,
        *,
        args: Sequence[str] = (),
        conf: Mapping[str, str] | None = None,
        **options: Unpack[Options],
    ) -> Task:
        """A spark-submit application, at a path below the DAG folder. `args` and the values of `conf` are templates."""
        where, given = self._new(task_id, options)
        arguments, settings = texts(where, "args", args), table(where, "conf", conf)
        return self._plain(where, SubmitTask(application=application, args=arguments, conf=settings, **given))

    def command(
        self, task_id: str, argv: Sequence[str], *, env: Mapping[str, str] | None = None, **options: Unpack[Options]
    ) -> Task:
        """A local program, started without a shell. Its arguments are templates."""
        where, given = self._new(task_id, options)
        return self._plain(where, CommandTask(argv=texts(where, "argv", argv), env=table(where, "env", env), **given))

    def empty(self, task_id: str, **options: Unpack[Options]) -> Task:
        """A task that does nothing: a joint in the order of others, or a mere outlet."""
        where, given = self._new(task_id, options)
        return self._plain(where, EmptyTask(**given))

    @contextmanager
    def group(self, group_id: str) -> Iterator[TaskGroup]:
        """Tasks that belong together: those made inside the block have the group's id and a dot before their own.

        Groups may stand in groups. Once it is complete a group can be linked like a task: what comes before it comes before its
        first tasks, and what comes after it after its last ones.
        """
        outer = self._group
        group = self._group = TaskGroup(name(f"{self._where}: group_id", self._prefixed(group_id)), outer)
        try:
            yield group
        finally:
            self._group = outer

    @property
    def functions(self) -> dict[str, Callable[..., Any]]:
        """The Python functions of its function tasks, by task id."""
        return {task_id: task.function for task_id, task in self.tasks.items() if isinstance(task, PythonTask)}

    @property
    def callback_functions(self) -> Mapping[str, CallbackFunction]:
        """The Python functions that are told what becomes of its runs and tasks, by name."""
        return self._hooks.functions

    def spec(self) -> DagSpec:
        """The serialised form, tasks in topological order. Raises DagError for a cycle."""
        return assembled(self._where, self._head, self.tasks)

    def _new(self, task_id: object, options: Options) -> tuple[str, dict[str, Any]]:
        """How messages call a task that is about to be added, and what all kinds of tasks have. Raises DagError."""
        checked_id = name(f"{self._where}: task_id", self._prefixed(name(f"{self._where}: task_id", task_id)))
        if checked_id in self.tasks:
            raise DagError(f"{self._where}: task_id {checked_id!r} is used twice; each task needs a name of its own")
        where = f"{self._where}, task {checked_id!r}"
        group = self._group.group_id if self._group else ""
        given = self._hooks.serialised(where, {**self._default_args, **fields(where, options)})
        return where, {**given, "task_id": checked_id, "group": group}

    def _prefixed(self, id_: str) -> str:
        return f"{self._group.group_id}.{id_}" if self._group else id_

    def _plain(self, where: str, spec: TaskSpec) -> Task:
        return self._add(Task(self.dag_id, checked(where, spec)))

    def _add(self, task: AnyTask) -> AnyTask:
        self.tasks[task.task_id] = task
        if self._group:
            self._group.add(task)
        return task
