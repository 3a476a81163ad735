"""What statements are called in the story of a schedule, and what they may do."""

import re
from functools import lru_cache
from importlib import import_module
from importlib.resources import files

from tidegate.schemas.queries.db import timed
from tidegate.schemas.queries.sql import load

_WRITES = re.compile(r"\b(?:INSERT INTO|UPDATE|DELETE FROM)\s+(\w+)")
_CHANGES = re.compile(r"\b(INSERT INTO|UPDATE|DELETE FROM)\s+(\w+)")
NO_TABLES = {"SET", "OF", "SKIP"}
"""What follows UPDATE elsewhere."""
_LOCKS = re.compile(r"\b(?:INSERT|UPDATE|DELETE|LOCK|advisory|FOR SHARE)\b|advisory")


def _named() -> dict[str, str]:
    import_module("tidegate.schemas.queries")
    topics = sorted(
        entry.name.removesuffix(".sql") for entry in files("tidegate.schemas.queries").iterdir() if entry.name.endswith(".sql")
    )
    names = {sql: f"{topic}.{name}" for topic in topics for name, sql in load(topic).items()}
    return names | {timed(sql): name for sql, name in names.items()}


_NAMES = _named()


@lru_cache(maxsize=5000)
def label(sql: str) -> str:
    """By its name; several in one by what they change."""
    if name := _NAMES.get(sql):
        return name
    changes = [f"{verb.split()[0].lower()} {table}" for verb, table in _CHANGES.findall(sql) if table != "SET"]
    return ", ".join(changes) or " ".join(sql.split())[:60]


@lru_cache(maxsize=5000)
def writes(sql: str) -> bool:
    return bool(_WRITES.search(sql))


@lru_cache(maxsize=5000)
def changed(sql: str) -> frozenset[str]:
    """The tables whose rows it may change by itself."""
    return frozenset(table for _, table in _CHANGES.findall(sql)) - NO_TABLES


@lru_cache(maxsize=5000)
def occupies(sql: str) -> bool:
    """Whether it may occupy a place that has a limit: it makes or moves a run or a task."""
    return not {"dag_run", "task_instance"}.isdisjoint(table for verb, table in _CHANGES.findall(sql) if verb != "DELETE FROM")


@lru_cache(maxsize=5000)
def may_wait(sql: str) -> bool:
    """Whether it takes locks that others may have."""
    return bool(_LOCKS.search(sql))
