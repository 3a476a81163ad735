"""Tasks and task groups of a DAG file, ordered by `>>` and `<<`."""

import inspect
import sys
from collections.abc import Callable, Sequence
from functools import update_wrapper
from typing import Any, Generic, Self, TypeVar, cast

import msgspec

from tidegate.schemas.authoring.dataset import Expression
from tidegate.schemas.dag import MAX_MAP_LABEL, EmptyTask, FunctionTask, TaskSpec
from tidegate.schemas.error import DagError

Function_co = TypeVar("Function_co", bound=Callable[..., Any], covariant=True)
SourceLocation = tuple[str, int]
"""A file and a line."""


class Linkable:
    """What `>>` and `<<` link: the last tasks of the side that comes first with the first tasks of the other side."""

    def first(self) -> "Sequence[Task]":
        """The tasks that run before all others of this object."""
        raise NotImplementedError

    def last(self) -> "Sequence[Task]":
        """The tasks that run after all others of this object."""
        raise NotImplementedError

    def __rshift__(self, other: "Follower") -> "Follower":
        place = _caller()
        for last in self.last():
            for task in last._first_of(other):
                task.follow(last, place)
        return other

    def __lshift__(self, other: "Follower") -> "Follower":
        place = _caller()
        for first in self.first():
            for task in first._last_of(other):
                first.follow(task, place)
        return other

    def __rrshift__(self, other: "Sequence[Linkable]") -> Self:
        place = _caller()
        for first in self.first():
            for task in first._last_of(other):
                first.follow(task, place)
        return self

    def __rlshift__(self, other: "Sequence[Linkable]") -> Self:
        place = _caller()
        for last in self.last():
            for task in last._first_of(other):
                task.follow(last, place)
        return self


class Task(Linkable):
    """A task of a DAG. `a >> b` and `b << a` make `b` run after `a`; one side may be a list of tasks and task groups.

    Returned by the methods of `Dag`; not created directly. Linking raises DagError for tasks of different DAGs.
    """

    def __init__(self, dag_id: str, spec: TaskSpec) -> None:
        self.dag_id = dag_id
        self.spec = spec
        self.upstream: dict[str, SourceLocation] = {}

    @property
    def task_id(self) -> str:
        return self.spec.task_id

    def first(self) -> "Sequence[Task]":
        return (self,)

    last = first

    def __repr__(self) -> str:
        return f"task {self.task_id!r}"

    def expand(self, *, over: "Task", map_label: str = "") -> Self:
        """Map the task over the list that the task `over` returns, after which it runs: one instance per element.

        `map_label` is the field of an element that names its instance in lists and pages, such as "day", or "flight.day" for one
        within another; without it the element itself, shortened.

        An instance reads its element as `run.item` or `{{ item }}`, its index from 0 as `run.map_index`, and not the whole list.
        Tasks after it read the list of the instances' results, in the order of the elements. Raises DagError for an empty task.
        """
        if not isinstance(map_label, str) or len(map_label) > MAX_MAP_LABEL or "\0" in map_label:
            raise DagError(
                f"DAG {self.dag_id!r}, {self!r}: map_label names a field of the elements in at most {MAX_MAP_LABEL} characters,"
                f" such as 'day' or 'flight.day', not {map_label!r:.100}"
            )
        if not isinstance(over, Task):
            raise DagError(
                f"DAG {self.dag_id!r}, {self!r}: expand(over=…) takes the task that returns the list, not {over!r:.100}"
            )
        if isinstance(self.spec, EmptyTask):
            raise DagError(f"DAG {self.dag_id!r}, {self!r}: an empty task cannot be mapped, for it does nothing with an element")
        self.follow(over, _caller())
        self.spec = msgspec.structs.replace(self.spec, over=over.task_id, map_label=map_label)
        return self

    def as_setup(self) -> Self:
        """Mark the task as a setup, whose work a teardown removes. Clearing a task between the two also clears the setup."""
        self.spec = msgspec.structs.replace(self.spec, is_setup=True)
        return self

    def as_teardown(self, *, setups: "Task | Sequence[Task]", on_failure_fail_dagrun: bool = False) -> Self:
        """Mark the task as the teardown of `setups`, after which it runs.

        It runs when all tasks before it have ended and at least one of `setups` succeeded. Its own failure fails the run only
        with `on_failure_fail_dagrun=True`. Raises DagError without a setup.
        """
        if not isinstance(on_failure_fail_dagrun, bool):
            raise DagError(
                f"DAG {self.dag_id!r}, {self!r}: on_failure_fail_dagrun is True or False, not {on_failure_fail_dagrun!r:.100}"
            )
        place = _caller()
        prepared = self._tasks(setups, "setups is a task or a list of tasks")
        for setup in prepared:
            setup.as_setup()
            self.follow(setup, place)
        ids = tuple(setup.task_id for setup in prepared)
        if not ids:
            raise DagError(f"DAG {self.dag_id!r}, {self!r}: a teardown needs at least one setup")
        self.spec = msgspec.structs.replace(self.spec, teardown_of=ids, on_failure_fail_run=on_failure_fail_dagrun)
        return self

    def follow(self, upstream: "Task", place: SourceLocation) -> None:
        """Run after `upstream`; `place` is where the file links them. Raises DagError for tasks of different DAGs."""
        if upstream.dag_id != self.dag_id:
            raise DagError(
                f"{upstream!r} of DAG {upstream.dag_id!r} and {self!r} of DAG {self.dag_id!r}: only tasks of one DAG can be"
                " linked; let one DAG wait for an outlet of the other"
            )
        if upstream is self:
            raise DagError(f"DAG {self.dag_id!r}: {self!r} cannot come after itself")
        self.upstream.setdefault(upstream.task_id, place)

    def _first_of(self, value: "Linked") -> "Sequence[Task]":
        return [task for part in self._parts(value) for task in part.first()]

    def _last_of(self, value: "Linked") -> "Sequence[Task]":
        return [task for part in self._parts(value) for task in part.last()]

    def _parts(self, value: "Linked") -> "Sequence[Linkable]":
        parts = (value,) if isinstance(value, Linkable) else value
        if isinstance(parts, list | tuple) and all(isinstance(part, Linkable) for part in parts):
            return parts
        hint = "; a dataset that a task updates belongs in its outlets" if isinstance(value, Expression) else ""
        raise DagError(
            f"DAG {self.dag_id!r}, {self!r}: >> and << take a task, a task group or a list of them, not {value!r:.100}{hint}"
        )

    def _tasks(self, value: "Task | Sequence[Task]", expected: str) -> "Sequence[Task]":
        tasks = (value,) if isinstance(value, Task) else value
        if isinstance(tasks, list | tuple) and all(isinstance(task, Task) for task in tasks):
            return tasks
        raise DagError(f"DAG {self.dag_id!r}, {self!r}: {expected}, not {value!r:.100}")


class TaskGroup(Linkable):
    """Tasks that are linked as one: `task >> group` links the group's first tasks, `group >> task` its last ones.

    Teardowns are not among the last tasks: what comes after the group waits for its work. `as_teardown` comes before the link.
    """

    def __init__(self, group_id: str, outer: "TaskGroup | None") -> None:
        self.group_id = group_id
        self.outer = outer
        self.tasks: list[Task] = []

    def add(self, task: Task) -> None:
        """Add a task to this group and to all groups around it."""
        self.tasks.append(task)
        if self.outer:
            self.outer.add(task)

    def __repr__(self) -> str:
        return f"task group {self.group_id!r}"

    def first(self) -> list[Task]:
        """The tasks without an upstream task in the group."""
        ids = {task.task_id for task in self.tasks}
        return [task for task in self.tasks if not ids & task.upstream.keys()]

    def last(self) -> list[Task]:
        """The tasks without a downstream task in the group; in place of teardowns, the tasks whose work they end."""
        upstream = {task_id for task in self.tasks for task_id in task.upstream}
        ends = [task for task in self.tasks if task.task_id not in upstream]
        found = list(ends)
        for task in found:
            found += [before for before in self._ended_by(task) if before not in found]
        return [task for task in found if not task.spec.teardown_of] or ends

    def _ended_by(self, teardown: Task) -> list[Task]:
        """The tasks right before a teardown, but for setups, and for tasks that lead to others than teardowns."""
        if not teardown.spec.teardown_of:
            return []
        leading = {task_id for task in self.tasks if not task.spec.teardown_of for task_id in task.upstream}
        before = [task for task in self.tasks if task.task_id in teardown.upstream and not task.spec.is_setup]
        return [task for task in before if task.spec.teardown_of or task.task_id not in leading]


Linked = Linkable | Sequence[Linkable]
Follower = TypeVar("Follower", bound=Linked)


class PythonTask(Task, Generic[Function_co]):
    """A task that runs a Python function. Calling the task calls the function, which tests use."""

    def __init__(self, dag_id: str, spec: FunctionTask, function: Function_co) -> None:
        super().__init__(dag_id, spec)
        self.function = function
        update_wrapper(self, function)

    @property
    def __call__(self) -> Function_co:
        return cast("Function_co", self._call)

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        """Raises DagError for arguments that are not those of the function: a file that links tasks writes no brackets."""
        try:
            return self.function(*args, **kwargs)
        except TypeError:
            signature = inspect.signature(self.function)
            if _fits(signature, *args, **kwargs):
                raise
            name = getattr(self.function, "__name__", self.task_id)
            written = f"to link it, write {name} >> other without brackets; a call runs the function, with {signature}"
            raise DagError(f"DAG {self.dag_id!r}, {self!r}: {written}", _caller()) from None


def _fits(signature: inspect.Signature, *args: Any, **kwargs: Any) -> bool:
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        return False
    return True


def _caller() -> SourceLocation:
    """The file and line of the code that uses the operator."""
    frame = sys._getframe(2)
    return frame.f_code.co_filename, frame.f_lineno
