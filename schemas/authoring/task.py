"""Tasks as DAG authors hold them: handles that `>>` and `<<` put in order."""

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import update_wrapper
from typing import Any, Generic, Self, TypeVar

import msgspec

from tidegate.schemas.authoring.dataset import Expression
from tidegate.schemas.dag import EmptyTask, FunctionTask, TaskSpec
from tidegate.schemas.error import DagError

Function_co = TypeVar("Function_co", bound=Callable[..., Any], covariant=True)
Struct = TypeVar("Struct", bound=msgspec.Struct)
Place = tuple[str, int]

_NAME = re.compile(r"[\w.-]{1,250}")


class Task:
    """A task of a DAG. `a >> b` lets `b` run after `a`; either side may be a list of tasks."""

    def __init__(self, dag_id: str, spec: TaskSpec) -> None:
        self.dag_id = dag_id
        self.spec = spec
        self.upstream: dict[str, Place] = {}

    @property
    def task_id(self) -> str:
        return self.spec.task_id

    def __rshift__(self, other: "Follower") -> "Follower":
        place = _place()
        for task in self._first_of(other):
            task.follow(self, place)
        return other

    def __lshift__(self, other: "Follower") -> "Follower":
        place = _place()
        for task in self._last_of(other):
            self.follow(task, place)
        return other

    def __rrshift__(self, other: "Sequence[Task]") -> "Task":
        place = _place()
        for task in self._tasks(other):
            self.follow(task, place)
        return self

    def __rlshift__(self, other: "Sequence[Task]") -> "Task":
        place = _place()
        for task in self._tasks(other):
            task.follow(self, place)
        return self

    def __repr__(self) -> str:
        return f"task {self.task_id!r}"

    def expand(self, *, over: "Task") -> Self:
        """Map it over the list that `over` returns: one instance per element, which each finds as `run.item` or `{{ item }}`.

        It comes after `over`. What its instances return is, for the tasks after it, one list in the order of the elements.
        """
        if not isinstance(over, Task):
            raise DagError(
                f"DAG {self.dag_id!r}, {self!r}: expand(over=…) takes the task that returns the list, not {over!r:.100}"
            )
        if isinstance(self.spec, EmptyTask):
            raise DagError(f"DAG {self.dag_id!r}, {self!r}: an empty task cannot be mapped, for it does nothing with an element")
        self.follow(over, _place())
        self.spec = msgspec.structs.replace(self.spec, over=over.task_id)
        return self

    def as_setup(self) -> Self:
        """Prepares something that a teardown removes again: clearing what comes between clears it too."""
        self.spec = msgspec.structs.replace(self.spec, is_setup=True)
        return self

    def as_teardown(self, *, setups: "Task | Sequence[Task]", on_failure_fail_dagrun: bool = False) -> Self:
        """Removes what `setups` prepared: runs when everything before it is done and a setup succeeded.

        It comes after its setups. Its own failure fails the run only where `on_failure_fail_dagrun` says so.
        """
        place = _place()
        prepared = self._tasks(setups)
        for setup in prepared:
            setup.as_setup()
            self.follow(setup, place)
        ids = tuple(setup.task_id for setup in prepared)
        if not ids:
            raise DagError(f"DAG {self.dag_id!r}, {self!r}: a teardown needs at least one setup")
        self.spec = msgspec.structs.replace(self.spec, teardown_of=ids, on_failure_fail_run=on_failure_fail_dagrun)
        return self

    def follow(self, upstream: "Task", place: Place) -> None:
        """Run after `upstream`; `place` is the file and line that says so. Raises DagError."""
        if upstream.dag_id != self.dag_id:
            raise DagError(
                f"{upstream!r} of DAG {upstream.dag_id!r} and {self!r} of DAG {self.dag_id!r}: only tasks of one DAG can be"
                " linked; let one DAG wait for an outlet of the other"
            )
        if upstream is self:
            raise DagError(f"DAG {self.dag_id!r}: {self!r} cannot come after itself")
        self.upstream.setdefault(upstream.task_id, place)

    def _first_of(self, value: "Linkable") -> "Sequence[Task]":
        return value.first() if isinstance(value, TaskGroup) else self._tasks(value)

    def _last_of(self, value: "Linkable") -> "Sequence[Task]":
        return value.last() if isinstance(value, TaskGroup) else self._tasks(value)

    def _tasks(self, value: "Task | Sequence[Task]") -> "Sequence[Task]":
        tasks = (value,) if isinstance(value, Task) else value
        if isinstance(tasks, list | tuple) and all(isinstance(task, Task) for task in tasks):
            return tasks
        hint = "; a dataset that a task updates belongs in its outlets" if isinstance(value, Expression) else ""
        raise DagError(f"DAG {self.dag_id!r}, {self!r}: >> and << take a task or a list of tasks, not {value!r:.100}{hint}")


class TaskGroup:
    """Tasks that belong together. `group >> task` and `task >> group` link the last and the first tasks of the group."""

    def __init__(self, group_id: str, outer: "TaskGroup | None") -> None:
        self.group_id = group_id
        self.outer = outer
        self.tasks: list[Task] = []

    def add(self, task: Task) -> None:
        """To this group and all around it."""
        self.tasks.append(task)
        if self.outer:
            self.outer.add(task)

    def __rshift__(self, other: "Follower") -> "Follower":
        place = _place()
        for last in self.last():
            for task in last._first_of(other):
                task.follow(last, place)
        return other

    def __lshift__(self, other: "Follower") -> "Follower":
        place = _place()
        for first in self.first():
            for task in first._last_of(other):
                first.follow(task, place)
        return other

    def __rrshift__(self, other: Sequence[Task]) -> "TaskGroup":
        place = _place()
        for first in self.first():
            for task in first._tasks(other):
                first.follow(task, place)
        return self

    def __rlshift__(self, other: Sequence[Task]) -> "TaskGroup":
        place = _place()
        for last in self.last():
            for task in last._tasks(other):
                task.follow(last, place)
        return self

    def __repr__(self) -> str:
        return f"task group {self.group_id!r}"

    def first(self) -> list[Task]:
        """Its tasks that come after no other of it."""
        ids = {task.task_id for task in self.tasks}
        return [task for task in self.tasks if not ids & task.upstream.keys()]

    def last(self) -> list[Task]:
        """Its tasks that no other of it comes after."""
        before = {task_id for task in self.tasks for task_id in task.upstream}
        return [task for task in self.tasks if task.task_id not in before]


Linkable = Task | TaskGroup | Sequence[Task]
Follower = TypeVar("Follower", bound=Task | TaskGroup | Sequence[Task])


class PythonTask(Task, Generic[Function_co]):
    """A task that is a Python function; calling it calls the function, for tests."""

    def __init__(self, dag_id: str, spec: FunctionTask, function: Function_co) -> None:
        super().__init__(dag_id, spec)
        self.function = function
        update_wrapper(self, function)

    @property
    def __call__(self) -> Function_co:
        return self.function


def check_function(where: str, function: Callable[..., Any]) -> None:
    """Raises DagError if `function` cannot be called with `(spark, run)`."""
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise DagError(f"{where}: the function must be a plain one, neither async nor a generator")
    signature = inspect.signature(function)
    try:
        signature.bind("spark", "run")
    except TypeError:
        raise DagError(f"{where}: the function is called with (spark, run), but its parameters are {signature}") from None


def name(what: str, value: object) -> str:
    """A name that can be one. Raises DagError."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise DagError(f"{what} {value!r:.100}: a name is 1 to 250 letters, digits, _, - or .")
    return value


def table(where: str, what: str, value: Mapping[str, str] | None) -> dict[str, str]:
    """A dict of strings, or nothing. Raises DagError."""
    if value is not None and not isinstance(value, Mapping):
        raise DagError(f"{where}: {what} must be a dict of strings, not {value!r:.100}")
    for key, item in (value or {}).items():
        if not isinstance(key, str) or not isinstance(item, str):
            raise DagError(f"{where}: {what} must be a dict of strings, not {{{key!r:.100}: {item!r:.100}}}")
    return dict(value or {})


def texts(where: str, what: str, value: Iterable[str]) -> tuple[str, ...]:
    """A list of strings; a bare string, which is one too, is a mistake. Raises DagError."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise DagError(f"{where}: {what} must be a list of strings, not {value!r:.100}")
    return tuple(value)


def checked(where: str, spec: Struct) -> Struct:
    """The same value once it is known to fit its own types. Raises DagError."""
    try:
        return msgspec.convert(msgspec.to_builtins(spec), type(spec))
    except msgspec.ValidationError as error:
        what, _, path = str(error).rpartition(" - at `$.")
        raise DagError(f"{where}: {path.rstrip('`')}: {what[:1].lower()}{what[1:]}") from None
    except (TypeError, ValueError) as error:
        raise DagError(f"{where}: {error}") from None


def _place() -> Place:
    """Where the operator was used."""
    frame = sys._getframe(2)
    return frame.f_code.co_filename, frame.f_lineno
