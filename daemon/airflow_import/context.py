"""The state of one import: what the names of the file mean, and what has been written so far."""

import ast
import builtins
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import msgspec

from tidegate.daemon.airflow_import.facts import FunctionNode, facts_of
from tidegate.daemon.airflow_import.layout import attribute, name
from tidegate.daemon.airflow_import.modules import Local, Modules
from tidegate.daemon.airflow_import.report import LeftOutError, Omission, left_out, omission
from tidegate.daemon.airflow_import.source import Source, last_line
from tidegate.daemon.airflow_import.vocabulary import OPERATOR_HINTS, operator_hint


class Place(msgspec.Struct, eq=False):
    """Where a block around a statement begins, or the end of what was written; the indentation and the group there.

    `line` is that of the block in the source: None of a loop, whose rounds share what is made before it.
    """

    index: int
    indent: str
    group: str = ""
    line: int | None = None


class Lost(msgspec.Struct, frozen=True):
    """A name whose statement was left out."""

    line: int


class TaskName(msgspec.Struct, frozen=True):
    """A task: its variable, and its whole id, which is the key of its result."""

    name: str
    task_id: ast.expr


class GroupName(msgspec.Struct, frozen=True):
    """A group of tasks, and its variable."""

    name: str


class DagName(msgspec.Struct, frozen=True):
    """A DAG, its variable, and what its tasks have to know. `number` tells DAGs of one variable apart."""

    name: str
    timezone: str = "UTC"
    has_retry_delay: bool = False
    number: int = 0


class Decorated(msgspec.Struct, frozen=True):
    """A function that Airflow makes tasks, a DAG or a group of, where it is called.

    `imported_as` is the name here of one that another module of the tree has.
    """

    node: FunctionNode
    kind: str
    options: tuple[ast.keyword, ...]
    role: str = ""
    imported_as: str = ""


class Held(msgspec.Struct, frozen=True):
    """A value that only a run has, such as a variable of Airflow: it is written where a task reads it."""

    node: ast.expr


Binding = Held | Lost | TaskName | GroupName | DagName | Decorated

Translate = Callable[["Context", ast.expr], ast.expr]
WriteBlock = Callable[["Context", Sequence[ast.stmt]], None]
"""How expressions are translated, and blocks written: by files that need the context themselves."""


class Context:
    """Names are those of the module: the bodies of functions that make DAGs and groups are written where they are called.

    `makers` are functions that make tasks: those in `wants_dag` get the DAG around their call as an argument, those in
    `without_result` return tasks in Airflow and nothing here. `counted` are functions whose tasks the written file counts.
    `holders` are collections of tasks; `stale` are tasks before a loop, in whose place the loop puts its own.
    """

    def __init__(
        self,
        source: Source,
        translate: "Translate",
        write_block: "WriteBlock",
        modules: "Modules[Context] | None" = None,
        path: str = "",
    ) -> None:
        self.modules = modules
        self.path = path
        self.local: dict[str, Local] = {}
        self.read_at_parsing: set[str] = set()
        self.exported: set[str] = set()
        self._translate = translate
        self._write_block = write_block
        self.source = source
        self.omissions: list[Omission] = []
        self.lines: list[str] = []
        self.indent = ""
        self.imports: dict[str, str] = {}
        self.external: dict[str, str] = {}
        self.bindings: dict[str, Binding] = {}
        self.bound: set[str] = {"spark", "run"}
        self.needed: set[tuple[str, str]] = set()
        self.standard: dict[str, tuple[str, ast.alias, bool]] = {}
        self.pending: dict[str, list[str]] = {}
        self.runtime_only: set[str] = set()
        self.makers: set[str] = set()
        self.wants_dag: set[str] = set()
        self.without_result: set[str] = set()
        self.lacks_result = False
        self.counted: set[str] = set()
        self.bridges: set[str] = set()
        self.inlined: set[str] = set()
        self.heads: list[Place] = []
        self.marks: list[Place] = []
        self.ids: set[str] = _literal_ids(source.tree)
        self.setups: list[tuple[DagName | None, str]] = []
        self.optional = 0
        self.rounds = 0
        self.mode = ""
        self.lost: dict[str, Lost] = {}
        self.reads_star = False
        self.has_unknown_names = False
        self.dag: DagName | None = None
        self.loops: tuple[str, ...] = ()
        self.holders: set[str] = set()
        self.stale: set[str] = set()
        self.tasks: dict[str, TaskName] = {}
        self.group_results: dict[str, TaskName] = {}
        self.dags: dict[str, DagName] = {}
        self.group = ""
        self.made_dags = 0
        self.call_counts: Counter[tuple[DagName | None, str, str]] = Counter()
        self.future_annotations = False
        self.facts = facts_of(source.tree, modules.default_args.get(path, ()) if modules is not None else ())
        self.taken = {*_stored(source.tree), *self.facts.functions, *dir(builtins)}

    def translate(self, node: ast.expr) -> ast.expr:
        """The expression in the words of Tidegate. Raises LeftOutError."""
        return self._translate(self, node)

    def write_body(self, body: Sequence[ast.stmt]) -> None:
        """Write statements at the current indentation."""
        self._write_block(self, body)

    def origin(self, node: ast.expr) -> str | None:
        """The dotted name of what an expression imports, such as `airflow.operators.bash.BashOperator`."""
        if isinstance(node, ast.Name):
            return None if node.id in self.bindings else self.imports.get(node.id) or self._of_star(node.id)
        if isinstance(node, ast.Attribute):
            parent = self.origin(node.value)
            return parent and f"{parent}.{node.attr}"
        return None

    def _of_star(self, identifier: str) -> str | None:
        """A name that `from airflow… import *` must have brought."""
        operator = identifier == "DAG" or identifier.endswith(("Operator", "Sensor"))
        return f"airflow.{identifier}" if self.reads_star and operator and identifier not in self.external else None

    def airflow_name(self, node: ast.expr) -> str | None:
        """What Airflow calls it: `BashOperator`, `task.branch`, `TriggerRule.ALL_DONE`."""
        origin = self.origin(node)
        if origin is None or origin.split(".")[0] != "airflow":
            return None
        parts = origin.split(".")[1:] or ["airflow"]
        first = next((index for index, part in enumerate(parts) if part[:1].isupper() or part == "task"), len(parts) - 1)
        return ".".join(parts[first:])

    def leave_out(self, left: LeftOutError | Omission, *, remark: bool = False) -> None:
        """Report a part as left out, with a comment at its place for statements and tasks."""
        omitted = left.omission if isinstance(left, LeftOutError) else left
        self.omissions.append(omitted)
        if remark:
            self.emit([self.indent + line for line in omitted.remark()])

    def emit(self, lines: Sequence[str]) -> None:
        self.lines.extend(lines)

    def emit_translated(self, node: ast.stmt, lines: Sequence[str]) -> None:
        """Comments inside of a translated statement are written before it."""
        source = self.source
        inside = [source.comments.get(line) or source.trailing.get(line) for line in range(node.lineno, last_line(node) + 1)]
        self.emit([*(self.indent + comment for comment in inside if comment), *lines])

    def lose(self, names: Sequence[str], node: ast.AST) -> None:
        """Uses of these names are left out from now on."""
        self.bindings.update({lost: Lost(getattr(node, "lineno", 1)) for lost in names})

    def bind(self, identifier: str, binding: Binding | None = None) -> None:
        """The name is available in the file that is written, as what `binding` says."""
        self.bindings.pop(identifier, None)
        self.imports.pop(identifier, None)
        self.external.pop(identifier, None)
        self.local.pop(identifier, None)
        self.stale.discard(identifier)
        self.bound.add(identifier)
        if binding is not None:
            self.bindings[identifier] = binding

    def fresh(self, wanted: str) -> str:
        """A variable that the file does not use."""
        candidates = (wanted if not count else f"{wanted}_{count + 1}" for count in range(len(self.taken) + 1))
        chosen = next(candidate for candidate in candidates if candidate not in self.taken)
        self.taken.add(chosen)
        return chosen

    def fresh_id(self, wanted: str) -> str:
        """An id that no task of the file has."""
        candidates = (wanted if not count else f"{wanted}_{count + 1}" for count in range(len(self.ids) + 1))
        chosen = next(candidate for candidate in candidates if candidate not in self.ids)
        self.ids.add(chosen)
        return chosen

    def before_blocks(self, line: int | None) -> Place:
        """Where a task is made that all rounds of the loops around this statement share, outside of groups after the line."""
        found = (head for head in self.heads if head.line is None or (line is not None and line < head.line))
        return next(found, Place(len(self.lines), self.indent, self.group))

    def insert(self, place: Place, lines: Sequence[str]) -> None:
        self.lines[place.index : place.index] = lines
        for known in (*self.heads, *self.marks):
            if known is not place and known.index > place.index:
                known.index += len(lines)
        place.index += len(lines)

    @contextmanager
    def mark(self) -> Iterator[Place]:
        """Where the lines of a statement begin, also after lines were inserted before it."""
        place = Place(len(self.lines), self.indent)
        self.marks.append(place)
        try:
            yield place
        finally:
            self.marks.remove(place)

    def need(self, module: str, identifier: str) -> ast.expr:
        """Import a name at the top, and refer to it."""
        if self.imports.get(module) == module:
            return attribute(name(module), identifier)
        self.needed.add((module, identifier))
        return name(identifier)

    def count_call(self, function: str) -> int:
        """How many calls of a function came before this one, in the same group of the same DAG."""
        self.call_counts[self.dag, self.group, function] += 1
        return self.call_counts[self.dag, self.group, function] - 1

    def prefixed(self, task_id: ast.expr) -> ast.expr:
        """The whole id of a task of the current group."""
        if not self.group:
            return task_id
        prefix = ast.Constant(value=f"{self.group}.")
        if isinstance(task_id, ast.Constant):
            return ast.Constant(value=f"{self.group}.{task_id.value!s}")
        return ast.BinOp(left=prefix, op=ast.Add(), right=task_id)

    def need_module(self, module: str) -> ast.expr:
        """Import a whole module at the top."""
        self.standard[module] = (module, ast.alias(name=module), True)
        return name(module)

    def dag_of(self, node: ast.AST) -> DagName:
        """The DAG around a task. Raises LeftOutError if there is none."""
        if self.dag is None:
            raise left_out(node, "no DAG of the file is around it", "write it below `with Dag(…) as dag:`")
        return self.dag

    def unavailable(self, node: ast.Name) -> LeftOutError | None:
        """Why a name cannot be used in the file that is written."""
        binding = self.bindings.get(node.id)
        if isinstance(binding, Lost):
            return left_out(node, f"{node.id} of line {binding.line} was left out", "translate that line first")
        if isinstance(binding, Held):
            return left_out(node, *OPERATOR_HINTS["Variable"])
        if isinstance(binding, Decorated):
            return left_out(node, "the function becomes a part of a DAG only where it is called", "write the call")
        if binding is not None or node.id in self.bound:
            return None
        if (airflow := self.airflow_name(node)) is not None:
            return left_out(node, *operator_hint(airflow))
        if node.id in self.local:
            return self._unavailable_there(node, self.local[node.id])
        if node.id in self.external:
            return left_out(node, f"{node.id} is not part of Python's library", "import and use it inside of a function task")
        known = node.id in self.imports or node.id in _BUILTINS
        return None if known else left_out(node, f"the file does not say what {node.id} is", "import it by its name")

    def _unavailable_there(self, node: ast.Name, local: Local) -> LeftOutError | None:
        """Why a name of another module of the tree cannot be used while DAG files are parsed."""
        problem = self.problem_of(node, local.module, local.name) if local.name else None
        if problem is None and self.modules is not None:
            self.read_at_parsing.add(node.id)
            self.modules.read_at_parsing.add(local.module)
        return problem

    def problem_of(self, node: ast.expr, module: str, identifier: str) -> LeftOutError | None:
        there = self.module(module)
        if there is None:
            return None
        if identifier in there.local:
            there.exported.add(identifier)
            return None
        binding = there.bindings.get(identifier)
        if isinstance(binding, Held):
            return left_out(node, f"{identifier} of {module} is a variable of Airflow", OPERATOR_HINTS["Variable"][1])
        if isinstance(binding, Lost):
            return left_out(node, f"{identifier} of {module}:{binding.line} was left out", "translate that line first")
        if isinstance(binding, Decorated):
            return left_out(node, "the function becomes a part of a DAG only where it is called", "write the call")
        if identifier in there.bound or binding is not None:
            return None
        if identifier in there.external:
            return left_out(node, f"{identifier} is not part of Python's library", "import and use it inside of a function task")
        return left_out(node, f"{module} does not say what {identifier} is", "import it by its name")

    def found_elsewhere(self, node: ast.expr) -> "tuple[Context, str] | None":
        """The other module of the tree that has a name, as `args` or `general.args`, and its name there."""
        if self.modules is None or (isinstance(node, ast.Name) and node.id in self.bindings):
            return None
        local = self.modules.named(node, self.local)
        there = self.module(local.module) if local is not None else None
        return (there, local.name) if there is not None and local is not None else None

    def function(self, node: ast.expr) -> FunctionNode | None:
        """The function that a name is, of this file or of another module of the tree."""
        found = self.found_elsewhere(node)
        if found is not None:
            return found[0].facts.functions.get(found[1])
        return self.facts.functions.get(node.id) if isinstance(node, ast.Name) else None

    def module(self, path: str) -> "Context | None":
        """What is known of another module of the tree."""
        return self.modules.context(path) if self.modules is not None else None

    @contextmanager
    def indented(self) -> Iterator[None]:
        outer, self.indent = self.indent, f"{self.indent}    "
        try:
            yield
        finally:
            self.indent = outer

    @contextmanager
    def reading(self, mode: str) -> Iterator[None]:
        """Values of the run are known: inside of a `function`, or in a `template`."""
        outer, self.mode = self.mode, mode
        try:
            yield
        finally:
            self.mode = outer

    @contextmanager
    def within(self, dag: DagName | None) -> Iterator[None]:
        """Tasks inside belong to the DAG."""
        outer, self.dag = self.dag, dag or self.dag
        try:
            yield
        finally:
            self.dag = outer


_BUILTINS = frozenset({*dir(builtins), "__file__", "__name__", "__doc__"})


def lost_names(node: ast.AST) -> list[str]:
    """The names that a statement would have bound."""
    targets = [child.id for child in ast.walk(node) if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store)]
    nested = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return targets + [child.name for child in ast.walk(node) if isinstance(child, nested)]


def omitted(node: ast.AST, left: LeftOutError, what: str) -> Omission:
    """The omission of a whole statement or task, for the reason of the part that has no equivalent."""
    return omission(node, what, left.omission.why, left.omission.instead)


def _literal_ids(tree: ast.Module) -> set[str]:
    """The ids that the file writes as texts."""
    values = (node.value for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg == "task_id")
    return {value.value for value in values if isinstance(value, ast.Constant) and isinstance(value.value, str)}


def _stored(tree: ast.Module) -> set[str]:
    """The variables of the file, except for what it imports from Airflow and never sets."""
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("airflow"))
    airflow = {alias.asname or alias.name for node in imports for alias in node.names}
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    return {node.id for node in names if isinstance(node.ctx, ast.Store)} | ({node.id for node in names} - airflow)
