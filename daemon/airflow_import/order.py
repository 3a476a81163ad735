"""The tasks and the order that a file of Airflow, or a translation of one, names: read from its syntax tree alone.

It takes no part in the translation, and the import compares both with it.
A task is the pattern of its id; what a loop makes is one pattern.
"""

import ast
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

from tidegate.daemon.airflow_import.sites import Edge, Reading, TaskSite, overridden, parts_of, results_in, unwound

_OPERATOR = re.compile(r"(Operator|Sensor)(Async)?$")
_DECORATOR = re.compile(r"^(\w+\.)?(task|setup|teardown|sensor)\b(?!_group)")
_MADE_BY_TIDEGATE = frozenset({"command", "sql", "submit", "empty"})
_ANY = ".+"

Function = ast.FunctionDef | ast.AsyncFunctionDef
Nodes = frozenset[str]
"""The patterns of the tasks that an expression stands for."""
Scope = dict[str, Nodes]
NOTHING: Nodes = frozenset()


def read(tree: ast.Module) -> Reading:
    reader = _Reader(tree)
    reader.block(tree.body, {})
    reader.uncalled()
    return Reading(
        tuple(dict.fromkeys(reader.tasks)), tuple(dict.fromkeys(reader.edges)), tuple(dict.fromkeys(reader.unclear)), reader.dags
    )


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _functions(tree: ast.AST) -> Mapping[str, Function]:
    return {node.name: node for node in ast.walk(tree) if isinstance(node, Function)}


def _decorator(function: Function) -> str:
    """`task`, `dag` or `task_group`, for a function that Airflow makes one of."""
    for decorator in function.decorator_list:
        text = ast.unparse(decorator.func if isinstance(decorator, ast.Call) else decorator)
        if _DECORATOR.match(text) or text.endswith(".task"):
            return "task"
        if text.rpartition(".")[2] in ("dag", "task_group"):
            return text.rpartition(".")[2]
    return ""


class _Reader:
    def __init__(self, tree: ast.Module) -> None:
        self.functions = _functions(tree)
        self.classes = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
        self.callables = {
            node.value.id
            for node in ast.walk(tree)
            if isinstance(node, ast.keyword)
            and (node.arg or "").endswith(("callable", "callback"))
            and isinstance(node.value, ast.Name)
        }
        self.texts: dict[str, ast.expr] = {}
        self.lists: dict[str, ast.List | ast.Tuple] = {}
        self.tasks: list[TaskSite] = []
        self.edges: list[Edge] = []
        self.unclear: list[tuple[int, int]] = []
        self.dags = 0
        self.conditions = 0
        self.group = ""
        self.visited: set[str] = set()
        self.dag_names: set[str] = {"dag"}

    def uncalled(self) -> None:
        """Functions that another file may call to make tasks."""
        for name, function in self.functions.items():
            inside_class = not isinstance(function, Function)
            if name not in self.visited and name not in self.callables and not inside_class and not _decorator(function):
                self.conditions += 1
                self.block(function.body, {argument.arg: NOTHING for argument in function.args.args})
                self.conditions -= 1

    # statements

    def block(self, body: Sequence[ast.stmt], scope: Scope) -> Nodes:
        """Returns what the block returns."""
        returned: Nodes = NOTHING
        for node in body:
            returned |= self.statement(node, scope)
        return returned

    def statement(self, node: ast.stmt, scope: Scope) -> Nodes:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._define(node, scope)
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
                self._assign(node, scope)
            case ast.Expr(value=value):
                self.value(value, scope)
            case ast.Return(value=ast.expr() as value):
                return self.value(value, scope)
            case _:
                return self._compound(node, scope)
        return NOTHING

    def _assign(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign, scope: Scope) -> None:
        found = self.value(node.value, scope) if node.value is not None else NOTHING
        if isinstance(node, ast.AugAssign):
            held = scope.get(_last(node.target), NOTHING)
            if isinstance(node.op, ast.RShift):
                self.link(node, held, found)
            scope[_last(node.target)] = held | found
            return
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            self._bind(target, node.value or target, found, scope)
            self._remember(_last(target), node.value)

    def _remember(self, name: str, value: ast.expr | None) -> None:
        """Texts and lists that a variable holds from here on."""
        self.texts.pop(name, None)
        self.lists.pop(name, None)
        if isinstance(value, ast.Constant | ast.JoinedStr):
            self.texts[name] = value
        elif isinstance(value, ast.List | ast.Tuple):
            self.lists[name] = value

    def _compound(self, node: ast.stmt, scope: Scope) -> Nodes:
        match node:
            case ast.With():
                return self._with(node, scope)
            case ast.For() | ast.AsyncFor():
                self._bind(node.target, node.iter, self.value(node.iter, scope), scope)
                return self._conditional([node.body, node.body, node.orelse], scope)
            case ast.While() | ast.If():
                return self._conditional([node.body, node.orelse], scope)
            case ast.Try():
                return self._conditional(
                    [node.body, *(handler.body for handler in node.handlers), node.orelse, node.finalbody], scope
                )
            case _:
                pass
        return NOTHING

    def _conditional(self, blocks: Sequence[Sequence[ast.stmt]], scope: Scope) -> Nodes:
        returned: Nodes = NOTHING
        self.conditions += 1
        for body in blocks:
            before = dict(scope)
            returned |= self.block(body, scope)
            for name, found in before.items():
                scope[name] = scope.get(name, NOTHING) | found
        self.conditions -= 1
        return returned

    def _define(self, node: Function, scope: Scope) -> None:
        kind = _decorator(node)
        scope.pop(node.name, None)
        for decorator in node.decorator_list:
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            if isinstance(called, ast.Attribute) and called.attr == "task" and _last(called.value) in self.dag_names:
                # A function of Tidegate is its task.
                options = {option.arg: option.value for option in decorator.keywords} if isinstance(decorator, ast.Call) else {}
                task_id = self._pattern(options["task_id"]) if "task_id" in options else re.escape(node.name)
                scope[node.name] = self._task(node, task_id, "function")
        if kind == "dag" and node.name not in self.visited:
            self.visited.add(node.name)
            self.dags += 1
            self.block(node.body, {argument.arg: NOTHING for argument in node.args.args})

    def _with(self, node: ast.With, scope: Scope) -> Nodes:
        outer = self.group
        for item in node.items:
            made = item.context_expr
            name = _last(made.func) if isinstance(made, ast.Call) else ""
            variable = item.optional_vars.id if isinstance(item.optional_vars, ast.Name) else ""
            if isinstance(made, ast.Call) and name in ("DAG", "Dag"):
                self.dags += 1
                self.dag_names.add(variable)
            elif isinstance(made, ast.Call) and name in ("TaskGroup", "group"):
                named = [*made.args[:1], *(option.value for option in made.keywords if option.arg == "group_id")]
                self.group += (self._pattern(named[0]) if named else _ANY) + r"\."
                if variable:
                    scope[variable] = frozenset({self.group + _ANY})
            else:
                scope |= {variable: self.value(made, scope)} if variable else {}
        returned = self.block(node.body, scope)
        self.group = outer
        return returned

    def _bind(self, target: ast.expr, value: ast.expr, found: Nodes, scope: Scope) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            values = value.elts if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts) else []
            for index, part in enumerate(target.elts):
                own = self._known(values[index], scope) if values else found
                self._bind(part, value, own, scope)
            return
        name = _last(target.value) if isinstance(target, ast.Subscript) else _last(target)
        if isinstance(value, ast.Call) and _last(value.func) in ("DAG", "Dag"):
            self.dags += 1
            self.dag_names.add(name)
            return
        is_dag = isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in self.functions
        if is_dag and isinstance(value, ast.Call) and _decorator(self.functions[_last(value.func)]) == "dag":
            self.dag_names.add(name)
            return
        scope[name] = scope.get(name, NOTHING) | found if isinstance(target, ast.Subscript) else found

    def _known(self, node: ast.expr, scope: Scope) -> Nodes:
        """What a part of a value stands for, which was read already."""
        if isinstance(node, ast.Name):
            return scope.get(node.id, NOTHING)
        before = len(self.tasks), len(self.edges), len(self.unclear)
        found = self.value(node, scope)
        del self.tasks[before[0] :], self.edges[before[1] :], self.unclear[before[2] :]
        return found

    # expressions

    def value(self, node: ast.expr, scope: Scope) -> Nodes:
        match node:
            case ast.Name(id=name):
                return scope.get(name, NOTHING)
            case ast.Starred(value=value) | ast.Subscript(value=value) | ast.Attribute(value=value) | ast.NamedExpr(value=value):
                return self.value(value, scope)
            case ast.BinOp(op=ast.RShift() | ast.LShift()):
                return self._shift(node, scope)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                return self._comprehension(node, scope)
            case ast.Call():
                return self._call(node, scope)
            case _:
                return self._union(parts_of(node), scope)

    def _union(self, nodes: Sequence[ast.expr | None], scope: Scope) -> Nodes:
        return NOTHING.union(*(self.value(node, scope) for node in nodes if node is not None))

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, scope: Scope) -> Nodes:
        inner = dict(scope)
        self.conditions += 1
        for generator in node.generators:
            self._bind(generator.target, generator.iter, self.value(generator.iter, scope), inner)
        found = self.value(node.value if isinstance(node, ast.DictComp) else node.elt, inner)
        self.conditions -= 1
        return found

    def _shift(self, node: ast.BinOp, scope: Scope) -> Nodes:
        left, right = self._operand(node.left, scope), self._operand(node.right, scope)
        if left is None or right is None:
            return (left if right is None else right) or NOTHING
        self.link(node, left, right, backwards=isinstance(node.op, ast.LShift))
        return right

    def _operand(self, node: ast.expr, scope: Scope) -> Nodes | None:
        """The tasks; None for a label, a DAG and a list without elements, which link nothing."""
        if isinstance(node, ast.Call) and _last(node.func) == "Label":
            return None
        if isinstance(node, ast.Name) and node.id in self.dag_names:
            return None
        if isinstance(node, ast.List) and not node.elts:
            return None
        return self.value(node, scope)

    def _call(self, node: ast.Call, scope: Scope) -> Nodes:
        name = _last(node.func)
        if isinstance(node.func, ast.Attribute) and (linked := self._method(node, node.func, scope)) is not None:
            return linked
        if name in ("chain", "chain_linear", "cross_downstream"):
            self._chain(node, name, scope)
            return NOTHING
        if name in ("XComArg", "list", "tuple", "reversed", "sorted", "zip", "enumerate", "pairwise", "iter", "set"):
            return self._union(node.args, scope)
        base, calls = unwound(node)
        function = self.functions.get(base.id) if isinstance(base, ast.Name) else None
        if function is not None:
            return self._of_function(node, function, calls, scope)
        options = {option.arg: option.value for made in calls for option in made.keywords if option.arg}
        made_here = _last(base)
        is_class = (
            made_here[:1].isupper() and "task_id" in options and (isinstance(base, ast.Name) or bool(_OPERATOR.search(made_here)))
        )
        if (_OPERATOR.search(made_here) and ("task_id" in options or calls[-1].args)) or is_class:
            task_id = options.get("task_id") or calls[-1].args[0]
            found = self._task(node, self._pattern(task_id), made_here)
            self._of_arguments(node, calls, found, scope)
            return found
        for part in [*node.args, *(option.value for option in node.keywords)]:
            self.value(part, scope)
        if isinstance(node.func, ast.Attribute) and (name == "values" or name == "items" or name == "get" or name == "output"):
            return self.value(node.func.value, scope)
        return NOTHING

    def _method(self, node: ast.Call, called: ast.Attribute, scope: Scope) -> Nodes | None:
        """Methods of tasks, of lists and of Tidegate's `Dag`."""
        other = [*node.args, *(option.value for option in node.keywords if option.arg == "task_or_task_list")]
        if called.attr in ("set_upstream", "set_downstream") and other:
            self.link(node, self.value(called.value, scope), self.value(other[0], scope), backwards=called.attr == "set_upstream")
            return NOTHING
        if called.attr in ("as_setup", "as_teardown"):
            removed = self.value(called.value, scope)
            for setup in (option.value for option in node.keywords if option.arg == "setups"):
                self.link(node, self.value(setup, scope), removed)
            return removed
        if called.attr in ("append", "extend", "insert", "add", "update", "setdefault") and isinstance(
            called.value, ast.Name | ast.Subscript
        ):
            name = _last(called.value.value) if isinstance(called.value, ast.Subscript) else _last(called.value)
            scope[name] = scope.get(name, NOTHING) | self._union(node.args, scope)
            return scope[name]
        if called.attr in _MADE_BY_TIDEGATE and _last(called.value) in self.dag_names and node.args:
            fails = len(node.args) > 1 and ast.unparse(node.args[1]) == "['false']"
            kind = "false" if fails else "EmptyOperator" if called.attr == "empty" else called.attr
            return self._task(node, self._pattern(node.args[0]), kind)
        over = [option.value for option in node.keywords if option.arg == "over"]
        if called.attr == "expand" and over:
            mapped = self.value(called.value, scope)
            self.link(node, self.value(over[0], scope), mapped)
            return mapped
        return None

    def _of_function(self, node: ast.Call, function: Function, calls: Sequence[ast.Call], scope: Scope) -> Nodes:
        kind = _decorator(function)
        self.visited.add(function.name)
        if kind == "task":
            options = {option.arg: option.value for made in calls for option in made.keywords}
            decorators = [given for given in function.decorator_list if isinstance(given, ast.Call)]
            options = {
                **{option.arg: option.value for given in decorators for option in given.keywords},
                **overridden(calls),
                "": node,
            }
            task_id = self._pattern(options["task_id"]) if "task_id" in options else re.escape(function.name) + r"(__\d+)?"
            found = self._task(node, task_id, "@task")
            self._of_arguments(node, calls, found, scope)
            return found
        given = self._union([*node.args, *(option.value for option in node.keywords)], scope)
        if kind == "dag" or function.name in self.callables:
            return NOTHING
        outer = self.group
        if kind == "task_group":
            self.group += self._group_of(function)
        inner: Scope = {**scope, **{argument.arg: NOTHING for argument in function.args.args}}
        for argument, value in zip(function.args.args, node.args, strict=False):
            inner[argument.arg] = self._known(value, scope)
        for option in node.keywords:
            inner[option.arg or ""] = self._known(option.value, scope)
        returned = NOTHING
        if len(self.group) < 500 and self.depth < 5:
            self.depth += 1
            returned = self.block(function.body, inner)
            self.depth -= 1
        found = frozenset({self.group + _ANY}) if kind == "task_group" else returned
        self.group = outer
        return found or given

    depth = 0

    def _group_of(self, function: Function) -> str:
        """The beginning of the ids below a function with the decorator of a group."""
        made = [given for given in function.decorator_list if isinstance(given, ast.Call)]
        named = [option.value for given in made for option in given.keywords if option.arg == "group_id"]
        return (self._pattern(named[0]) if named else re.escape(function.name)) + r"(__\d+)?\."

    def _of_arguments(self, node: ast.Call, calls: Sequence[ast.Call], task: Nodes, scope: Scope) -> None:
        """Results of other tasks among the arguments are an order."""
        parts = [
            part for made in calls for part in [*made.args, *(option.value for option in made.keywords if option.arg != "dag")]
        ]
        for part in parts:
            for found in results_in(part):
                before = self.value(found, scope) - task
                if before:
                    self.link(node, before, task)

    def _task(self, node: ast.expr | Function, pattern: str, kind: str) -> Nodes:
        whole = self.group + pattern
        self.tasks.append(TaskSite(node.lineno, node.end_lineno or node.lineno, whole, kind))
        return frozenset({whole})

    def _pattern(self, node: ast.expr) -> str:
        match node:
            case ast.Constant(value=value):
                return re.escape(str(value))
            case ast.JoinedStr(values=values):
                return "".join(re.escape(str(part.value)) if isinstance(part, ast.Constant) else _ANY for part in values)
            case ast.BinOp(op=ast.Add()):
                return self._pattern(node.left) + self._pattern(node.right)
            case ast.Name(id=name) if name in self.texts:
                return self._pattern(self.texts[name])
            case _:
                return _ANY

    def _chain(self, node: ast.Call, name: str, scope: Scope) -> None:
        named = {option.arg: option.value for option in node.keywords}
        args = [*node.args, *(named[key] for key in ("from_tasks", "to_tasks") if key in named)]
        if len(args) == 1 and isinstance(args[0], ast.Starred):
            value = args[0].value
            held = self.lists.get(value.id, value) if isinstance(value, ast.Name) else value
            if not isinstance(held, ast.List | ast.Tuple):
                # The elements follow each other: any two of them may.
                found = self.value(value, scope)
                either = frozenset({f"(?:{'|'.join(sorted(found))})"} if found else ())
                self.link(node, either, either, several=True)
                return
            args = [element for element in held.elts if self._known(element, scope)]
        for left, right in pairwise(args):
            lefts = left.elts if isinstance(left, ast.List | ast.Tuple) else [left]
            rights = right.elts if isinstance(right, ast.List | ast.Tuple) else [right]
            pairs = zip(lefts, rights, strict=False) if name == "chain" and len(lefts) == len(rights) > 1 else [(left, right)]
            for before, after in pairs:
                first, second = self._operand(before, scope), self._operand(after, scope)
                if first is not None and second is not None:
                    self.link(node, first, second)

    def link(
        self, node: ast.expr | ast.stmt, left: Nodes, right: Nodes, *, backwards: bool = False, several: bool = False
    ) -> None:
        before, after = (right, left) if backwards else (left, right)
        lines = node.lineno, node.end_lineno or node.lineno
        if not before or not after:
            self.unclear.append(lines)
        several = several or any(_ANY in pattern for pattern in before | after)
        self.edges += [
            Edge(*lines, first, second, is_certain=not self.conditions and not several)
            for first in sorted(before)
            for second in sorted(after)
            if first != second or several or first.endswith(r"(__\d+)?")
        ]
