"""Inside a sandbox: whether a file is a DAG file, by the names in its code. Comments and texts do not count.

Applications in the DAG folder must not be executed as DAG files: they start Spark sessions, and need what only a run gives them.
"""

import re
from collections.abc import Iterator
from types import CodeType

AUTHORING, EVENTS = "tidegate", "tidegate.events"

_DAG_WORD = re.compile("[dD][aA][gG][sS]?(?![a-z]|_id|_run)")
"""`make_dag`, `DagFactory`, `dags`; not `daggers`, and not the names of a run's facts, such as `dag_id`."""


def dag_name(source: str, filename: str) -> str | None:
    """The name that makes the file a DAG file: `tidegate` for an import of that, or a name with the word `dag`; None without one.

    Of a file that does not compile each word may be a name.
    """
    try:
        names = set(_names(compile(source, filename, "exec", dont_inherit=True)))
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
        names = set(re.findall(r"[\w.]+", source))
    if any(map(_is_authoring, names)) and EVENTS not in names:
        return AUTHORING
    return min(filter(_DAG_WORD.search, names), default=None)


def _is_authoring(name: str) -> bool:
    return name == AUTHORING or (name.startswith(f"{AUTHORING}.") and not name.startswith(EVENTS))


def _names(code: CodeType) -> Iterator[str]:
    yield from (*code.co_names, *code.co_varnames, *code.co_cellvars)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
