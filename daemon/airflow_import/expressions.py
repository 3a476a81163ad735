"""Translates expressions: names of Airflow become those of Tidegate, wherever they are in an expression."""

import ast

import msgspec

from tidegate.daemon.airflow_import import vocabulary
from tidegate.daemon.airflow_import.calls import Invocation, decorated_call, foreign_task, invocation, operator_call
from tidegate.daemon.airflow_import.context import Binding, Context, DagName, Decorated, GroupName, Held, TaskName
from tidegate.daemon.airflow_import.functions import holds_task
from tidegate.daemon.airflow_import.layout import constant, copied, keyword, name
from tidegate.daemon.airflow_import.objects import other_call
from tidegate.daemon.airflow_import.report import left_out
from tidegate.daemon.airflow_import.tasks import is_task
from tidegate.daemon.airflow_import.values import time_call
from tidegate.daemon.airflow_import.variables import as_template, begins_with_variable, parameter
from tidegate.schemas.text import is_template

_TASK_METHODS = frozenset({"as_setup", "as_teardown", "task_id", "dag_id"})
_ADDING = frozenset({"append", "extend", "insert", "add", "setdefault", "update"})
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def translate(context: Context, node: ast.expr, variable: str = "") -> ast.expr:
    """The expression in the words of Tidegate. Functions of tasks are written before it. Raises LeftOutError."""
    translated = _Expressions(context, variable).visit(copied(node))
    return translated if isinstance(translated, ast.expr) else node


class _Expressions(ast.NodeTransformer):
    def __init__(self, context: Context, variable: str) -> None:
        self.context = context
        self.variable = variable
        self.local: list[str] = []

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, (*_COMPREHENSIONS, ast.Lambda)):
            return self._with_locals(node)
        if isinstance(node, ast.expr) and self._is_template(node):
            return as_template(self.context, node)
        visited: ast.AST = super().visit(node)
        return visited

    def _is_template(self, node: ast.expr) -> bool:
        """Whether an expression is a variable of Airflow in a text that a run renders."""
        if self.context.mode != "template" or (isinstance(node, ast.Name) and node.id in self.local):
            return False
        return begins_with_variable(self.context, node)

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.expr:
        visited = self.visit(node.value)
        if not isinstance(visited, ast.expr):
            return node
        if isinstance(visited, ast.Constant) and visited is not node.value and is_template(str(visited.value)):
            return visited
        return ast.FormattedValue(value=visited, conversion=node.conversion, format_spec=node.format_spec)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self.local or isinstance(node.ctx, ast.Store):
            return node
        held = self.context.bindings.get(node.id)
        if isinstance(held, Held) and self.context.mode:
            value = self.visit(copied(held.node))
            return value if isinstance(value, ast.expr) else node
        problem = self.context.unavailable(node)
        if problem is not None:
            raise problem
        binding = self.context.bindings.get(node.id)
        return name(binding.name) if isinstance(binding, TaskName | GroupName | DagName) else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        airflow = self.context.airflow_name(node)
        if airflow is not None:
            return _member(node, airflow)
        if isinstance(node.value, ast.Name) and node.value.id not in self.local:
            self._check_module(node, node.value.id)
        value = self.visit(node.value)
        is_task_ = isinstance(value, ast.Name) and value.id in self.context.tasks
        if is_task_ and node.attr == "output":
            return value if isinstance(value, ast.expr) else node
        binding = self.context.bindings.get(value.id) if isinstance(value, ast.Name) else None
        if isinstance(binding, TaskName | GroupName | DagName) and node.attr not in _TASK_METHODS:
            hint = vocabulary.OPTION_HINTS.get(
                node.attr, (f"{node.attr} of Airflow has no equivalent", "see schemas/docs/writing-dags.md")
            )
            raise left_out(node, *hint)
        if not isinstance(value, ast.expr):
            return node
        return ast.Attribute(value=value, attr=node.attr, ctx=node.ctx)

    def _default_argument(self, node: ast.Subscript) -> ast.expr | None:
        """What the file reads of its `default_args`, whose translation may lack it: the value itself."""
        held = self.context.facts.constants.get(node.value.id) if isinstance(node.value, ast.Name) else None
        is_read = isinstance(node.value, ast.Name) and node.value.id in self.context.facts.default_args
        if not is_read or not isinstance(held, ast.Dict) or not isinstance(node.ctx, ast.Load):
            return None
        key = ast.dump(node.slice)
        found = [value for own, value in zip(held.keys, held.values, strict=True) if own is not None and ast.dump(own) == key]
        visited = self.visit(copied(found[0])) if found else None
        return visited if isinstance(visited, ast.expr) else None

    def _runs_only(self, called: ast.expr) -> bool:
        """Whether a function can be called in a run only, of this file or of another module of the tree."""
        if isinstance(called, ast.Name) and called.id in self.context.runtime_only and called.id not in self.local:
            return True
        found = self.context.found_elsewhere(called)
        return found is not None and found[1] in found[0].runtime_only

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        given = self._default_argument(node)
        if given is not None:
            return given
        visited = self.generic_visit(node)
        read = visited.value if isinstance(visited, ast.Subscript) else None
        if (
            not self.context.mode
            and isinstance(read, ast.Name)
            and read.id in self.context.tasks
            and isinstance(node.ctx, ast.Load)
        ):
            raise left_out(node, "the result of a task is there only in a run", "read run.results in a function")
        return visited if isinstance(visited, ast.expr) else node

    def _check_module(self, node: ast.Attribute, identifier: str) -> None:
        """Raises LeftOutError for a name that the translation of a module of the tree lacks."""
        local = self.context.local.get(identifier)
        if local is not None and not local.name and identifier not in self.context.bindings:
            problem = self.context.problem_of(node, local.module, node.attr)
            if problem is not None:
                raise problem

    def visit_Call(self, node: ast.Call) -> ast.expr:
        variable, self.variable = self.variable, ""
        found = invocation(node)
        binding = self._binding(found.base)
        if isinstance(binding, Decorated):
            self._refuse_in_comprehension(node)
            return decorated_call(self.context, node, found, binding, variable)
        class_name = self.context.airflow_name(found.base)
        if class_name is not None:
            return self._of_airflow(node, found, class_name, variable)
        if self._is_unavailable_task(found):
            return foreign_task(self.context, node, found, variable)
        made = time_call(self.context, node)
        return made if made is not None else self._plain(node)

    def _binding(self, base: ast.expr) -> Binding | None:
        """What a name means, or one of a module of the tree, such as `steps.load`."""
        if isinstance(base, ast.Name):
            return self.context.bindings.get(base.id) if base.id not in self.local else None
        found = self.context.found_elsewhere(base)
        binding = found[0].bindings.get(found[1]) if found is not None else None
        return msgspec.structs.replace(binding, imported_as=ast.unparse(base)) if isinstance(binding, Decorated) else None

    def _wants_dag(self, called: ast.expr) -> bool:
        """Whether a function adds its tasks to the DAG around its call."""
        if isinstance(called, ast.Name):
            return called.id in self.context.wants_dag and called.id not in self.local
        found = self.context.found_elsewhere(called)
        return found is not None and found[1] in found[0].wants_dag

    def _of_airflow(self, node: ast.Call, found: Invocation, class_name: str, variable: str) -> ast.expr:
        if class_name == "Variable.get":
            return parameter(self.context, node)
        if class_name in vocabulary.PYTHON:
            self._refuse_in_comprehension(node)
        made = operator_call(self.context, node, found, class_name, variable)
        if made is None:
            made = other_call(self.context, node, class_name, variable)
        if made is None:
            raise left_out(node, *vocabulary.operator_hint(class_name))
        return made

    def _is_unavailable_task(self, found: Invocation) -> bool:
        """Whether a call with a task_id is of a class that is not there: a custom operator, or one of another package."""
        options = [option.arg for made in found.calls.values() for option in made.keywords]
        root = next((child for child in ast.walk(found.base) if isinstance(child, ast.Name)), None)
        missing = root is not None and self.context.unavailable(root) is not None
        is_named = "task_id" in options or (None in options and is_task(ast.unparse(found.base)))
        return missing and is_named and self.context.dag is not None

    def _plain(self, node: ast.Call) -> ast.expr:
        partial = bool(node.args) and self.context.origin(node.func) == "functools.partial"
        if self._runs_only(node.args[0] if partial else node.func):
            raise left_out(
                node, "the function uses Airflow, or a package that is not part of Python's library", "call it in a function task"
            )
        is_given = any(option.arg == "dag" for option in node.keywords)
        if not is_given and self._wants_dag(node.args[0] if partial else node.func):
            node.keywords.append(keyword("dag", name(self.context.dag_of(node).name)))
        visited = self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name) and node.func.attr in _ADDING:
            self.context.holders |= {node.func.value.id} if any(holds_task(self.context, arg) for arg in node.args) else set()
        return visited if isinstance(visited, ast.expr) else node

    def _with_locals(self, node: ast.AST) -> ast.AST:
        added = [child.id for child in ast.walk(node) if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store)]
        added += [child.arg for child in ast.walk(node) if isinstance(child, ast.arg)]
        self.local.extend(added)
        visited = self.generic_visit(node)
        del self.local[len(self.local) - len(added) :]
        return visited

    def _refuse_in_comprehension(self, node: ast.expr) -> None:
        if self.local:
            raise left_out(node, "a function task cannot be written inside of a comprehension", "write a for loop")


def _member(node: ast.Attribute, airflow: str) -> ast.expr:
    """A member of an enumeration of rules as its string."""
    kind, _, member = airflow.rpartition(".")
    names = {"TriggerRule": vocabulary.TRIGGER_RULES, "WeightRule": vocabulary.WEIGHT_RULES}.get(kind, {})
    if member.lower() in names:
        return constant(names[member.lower()])
    raise left_out(node, *vocabulary.operator_hint(airflow))
