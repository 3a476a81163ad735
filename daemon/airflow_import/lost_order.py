"""What a file says of the order of tasks, and its translation does not."""

import ast
import re
from collections.abc import Iterator

from tidegate.daemon.airflow_import.order import read
from tidegate.daemon.airflow_import.sites import Edge


def lost_edges(source: ast.Module, written: ast.Module) -> Iterator[Edge]:
    """What a file says of the order, and its translation does not."""
    there = read(written).edges
    same = {(other.before, other.after) for other in there}
    for edge in read(source).edges:
        if (edge.before, edge.after) not in same and not any(
            overlap(edge.before, other.before) and overlap(edge.after, other.after) for other in there
        ):
            yield edge


def fits(pattern: str, task_id: str) -> bool:
    return re.fullmatch(rf"(.*\.)?{pattern}", task_id) is not None


def overlap(one: str, other: str) -> bool:
    """Whether an id may fit two patterns: one of them fits the text of the other."""
    return fits(one, text_of(other)) or fits(other, text_of(one))


def text_of(pattern: str) -> str:
    """An id that fits a pattern."""
    one_of = re.sub(r"\(\?:([^|)]*)[^)]*\)", r"\1", pattern.replace(r"(__\d+)?", ""))
    return re.sub(r"\\(.)", r"\1", one_of.replace(".+", "x"))
