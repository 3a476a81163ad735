"""Inside a sandbox: whether a file is a DAG file, by the names in its code. Comments and texts do not count.

Applications in the DAG folder must not be executed as DAG files: they start Spark sessions, and need what only a run gives them.
"""

import ast
import re
from collections.abc import Iterator
from types import CodeType

AUTHORING, EVENTS, DAG_ID = "tidegate", "tidegate.events", "dag_id"

_DAG_WORD = re.compile("[dD][aA][gG][sS]?(?![a-z]|_id|_run)")
"""`make_dag`, `DagFactory`, `dags`; not `daggers`, and not the names of a run's facts, such as `dag_id`."""

_PERHAPS_ARGUMENT = re.compile(rf"\b{DAG_ID}\s*=(?!=)")

_NOT_COMPILED = (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError)


def compiled(source: str, filename: str) -> CodeType | None:
    """The code of a file; None of one that does not compile."""
    try:
        return compile(source, filename, "exec", dont_inherit=True)
    except _NOT_COMPILED:
        return None


def dag_name(source: str, code: CodeType | None) -> str | None:
    """The name that makes the file a DAG file; None without one. `code` is that of `compiled`.

    It is `tidegate` for an import of that, a name with the word `dag`, or `dag_id` for a call like `pipeline(dag_id="sales")`.
    Such a call does not count beside `tidegate.events`, whose own calls name the DAG of a run. Of a file that does not compile
    each word may be a name.
    """
    names: set[str] = set(re.findall(r"[\w.]+", source) if code is None else _names(code))
    if any(map(_is_authoring, names)) and EVENTS not in names:
        return AUTHORING
    if (name := min(filter(_DAG_WORD.search, names), default=None)) is not None:
        return name
    return DAG_ID if EVENTS not in names and _gives_dag_id(source) else None


def _is_authoring(name: str) -> bool:
    return name == AUTHORING or (name.startswith(f"{AUTHORING}.") and not name.startswith(EVENTS))


def _gives_dag_id(source: str) -> bool:
    """Whether a call has an argument `dag_id`; of a file that does not compile, whether it may."""
    if not _PERHAPS_ARGUMENT.search(source):
        return False
    try:
        return any(isinstance(node, ast.keyword) and node.arg == DAG_ID for node in ast.walk(ast.parse(source)))
    except _NOT_COMPILED:
        return True


def _names(code: CodeType) -> Iterator[str]:
    yield from (*code.co_names, *code.co_varnames, *code.co_cellvars)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
