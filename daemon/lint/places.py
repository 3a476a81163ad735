"""The lines of a DAG file that its tasks and their texts come from. The serialised form has no lines."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property


class Places:
    """Finds texts among the literals of a file. What the file computes has no line of its own."""

    def __init__(self, source: str) -> None:
        self._source = source

    def line_of(self, task_id: str | None, text: str) -> int | None:
        """The line of a text in the definition of a task, else the only one in the file, else that of the task."""
        task = None if task_id is None else self._definition(task_id.rpartition(".")[2])
        if task is not None and (inside := _lines_of(task, text)):
            return inside[0]
        anywhere = self._lines.get(text, [])
        if len(anywhere) == 1:
            return anywhere[0]
        return None if task is None else task.lineno

    def function_of(self, task_id: str) -> ast.FunctionDef | None:
        """The function of the file that is decorated as this task; None where several are, as in a file of several DAGs."""
        functions = self._functions[task_id.rpartition(".")[2]]
        return functions[0] if len(functions) == 1 else None

    @cached_property
    def tree(self) -> ast.Module:
        """Empty for a file that this Python cannot read."""
        try:
            return ast.parse(self._source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return ast.Module(body=[], type_ignores=[])

    @cached_property
    def _lines(self) -> dict[str, list[int]]:
        """The lines of each text."""
        found: dict[str, list[int]] = defaultdict(list)
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found[node.value].append(node.lineno)
        return found

    @cached_property
    def _definitions(self) -> dict[str, ast.Call | ast.FunctionDef]:
        """By name, the first call with it as its first argument or `task_id`, or the function that is decorated."""
        found: dict[str, ast.Call | ast.FunctionDef] = {}
        for node in ast.walk(self.tree):
            for name in _names_of(node):
                if isinstance(node, ast.Call | ast.FunctionDef):
                    found.setdefault(name, node)
        return found

    @cached_property
    def _functions(self) -> dict[str, list[ast.FunctionDef]]:
        """By the name of the task, the functions that are decorated as it."""
        found: dict[str, list[ast.FunctionDef]] = defaultdict(list)
        for node in ast.walk(self.tree):
            for name in _task_names_of(node):
                if isinstance(node, ast.FunctionDef):
                    found[name].append(node)
        return found

    def _definition(self, name: str) -> ast.Call | ast.FunctionDef | None:
        return self._definitions.get(name)


def _names_of(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef) and node.decorator_list:
        yield node.name
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        chosen = [keyword.value for keyword in node.keywords if keyword.arg == "task_id"] or node.args[:1]
        yield from (value.value for value in chosen if isinstance(value, ast.Constant) and isinstance(value.value, str))


def _task_names_of(node: ast.AST) -> list[str]:
    """The names that the decorators of a function give it; else its own."""
    if not isinstance(node, ast.FunctionDef) or not node.decorator_list:
        return []
    return [name for each in node.decorator_list for name in _names_of(each)] or [node.name]


def _lines_of(tree: ast.AST, text: str) -> list[int]:
    return [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Constant) and node.value == text]
