"""A version of a DAG: its source, and what it changed of the version before, in text and in meaning."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import unified_diff
from itertools import takewhile
from operator import eq
from typing import Any

import msgspec

from tidegate.daemon.read_model.lookup import find_dag
from tidegate.schemas.error import NotFoundError
from tidegate.schemas.queries import grid
from tidegate.schemas.queries.dag_pages import DagRow
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.grid import StoredVersion, VersionRow
from tidegate.schemas.queries.run_pages import RunRow

CONTEXT = 3
"""The unchanged lines around a change."""

MOST_PAIRS = 4_000_000
"""The most pairs of lines that are compared: the time grows with their number, up to half a second."""


class VersionPage(msgspec.Struct, frozen=True):
    """`diff` and `changes` are empty for the first version. `diff` is None if too many lines changed to compare them.

    `newest` is the number of the current version.
    """

    dag_id: str
    version: StoredVersion
    newest: int
    diff: Sequence[str] | None
    changes: Sequence[str]


class VersionPair(msgspec.Struct, frozen=True):
    """A version, and the one before it; None for the first."""

    dag: DagRow
    version: StoredVersion
    before: StoredVersion | None


class VersionFiles(msgspec.Struct, frozen=True):
    """The DAG file of a version, and its modules and applications in Python, by path relative to the DAG folder."""

    number: int
    path: str
    files: Mapping[str, str]


async def list_versions(db: Db, dag_id: str, limit: int, before: int | None = None) -> list[VersionRow]:
    """The versions of a DAG, newest first; those before a number. Raises NotFoundError for an unknown DAG."""
    return await grid.list_versions(db, (await find_dag(db, dag_id)).dag_id, limit, before)


async def read_files(db: Db, dag_id: str, number: int | None) -> VersionFiles:
    """The files of a version; of the current one without a number. Raises NotFoundError."""
    dag = await find_dag(db, dag_id)
    number = dag.version if number is None else number
    found = await grid.version(db, dag_id, number)
    if found is None:
        raise _no_such_version(dag, number)
    return VersionFiles(number, found.path, {**await grid.modules(db, dag_id, number), found.path: found.source})


async def newer_version(db: Db, run: RunRow) -> VersionRow | None:
    """The version that the DAG of a run has now; None if it is that of the run."""
    newest = await grid.current_version(db, run.dag_id)
    return newest if newest and newest.number != run.version else None


def version_text(dag_id: str, number: int, newest: int) -> str:
    """`version 1 of daily; the newest is version 2`."""
    return f"version {number} of {dag_id}{f'; the newest is version {newest}' if newest != number else ''}"


def _no_such_version(dag: DagRow, number: int) -> NotFoundError:
    return NotFoundError(f"DAG {dag.dag_id!r} has no version {number}; its newest one is {dag.version}")


async def read_pair(db: Db, dag_id: str, number: int) -> VersionPair:
    """Raises NotFoundError."""
    dag = await find_dag(db, dag_id)
    found, before = await grid.version(db, dag_id, number), await grid.version(db, dag_id, number - 1)
    if found is None:
        raise _no_such_version(dag, number)
    return VersionPair(dag, found, before)


def compared(pair: VersionPair) -> VersionPage:
    """The page of the version. It takes up to a second of processor, so call it in a thread."""
    newest, found, before = pair.dag.version, pair.version, pair.before
    if before is None:
        return VersionPage(pair.dag.dag_id, found, newest, (), ())
    changes = list(changes_of(before.spec, found.spec))
    return VersionPage(pair.dag.dag_id, found, newest, diff_of(before, found), changes)


def diff_of(before: StoredVersion, after: StoredVersion) -> list[str] | None:
    """The changed lines of the source, as `diff -u` prints them; None if these are too many.

    What both versions begin and end with is left out before the comparison.
    """
    old, new = before.source.splitlines(), after.source.splitlines()
    head = _equal(old, new)
    tail = _equal(reversed(old[head:]), reversed(new[head:]))
    if (len(old) - head - tail) * (len(new) - head - tail) > MOST_PAIRS:
        return None
    first, left = max(head - CONTEXT, 0), max(tail - CONTEXT, 0)
    names = (f"version {before.number}", f"version {after.number}")
    found = unified_diff(old[first : len(old) - left], new[first : len(new) - left], *names, n=CONTEXT, lineterm="")
    return [_moved(line, first) if line.startswith("@@") else line for line in found]


def _equal(old: Iterable[str], new: Iterable[str]) -> int:
    """The number of lines that both begin with."""
    return sum(1 for _ in takewhile(bool, map(eq, old, new)))


def _moved(header: str, lines: int) -> str:
    """`@@ -1,2 +1,2 @@`, moved down by a number of lines."""
    return re.sub(r"(?<=[-+])\d+", lambda number: str(int(number[0]) + lines), header)


def changes_of(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """The changes in words: options of the DAG, and added, removed or changed tasks. Layout and comments are none."""
    yield from _options(_without_tasks(before), _without_tasks(after), "")
    old, new = _tasks(before), _tasks(after)
    yield from (f"task {task_id}: removed" for task_id in old if task_id not in new)
    for task_id, task in new.items():
        if task_id in old:
            yield from _options(old[task_id], task, f"task {task_id}: ")
        else:
            yield f"task {task_id}: added"


def _options(before: Mapping[str, Any], after: Mapping[str, Any], subject: str) -> Iterator[str]:
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            yield f"{subject}{name.replace('_', ' ')} {_text(before.get(name))} → {_text(after.get(name))}"


def _text(value: Any) -> str:
    """A default is left out of the serialised form."""
    return "default" if value is None else msgspec.json.encode(value).decode()


def _without_tasks(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in spec.items() if name != "tasks"}


def _tasks(spec: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    return {task["task_id"]: task for task in spec.get("tasks", ())}
