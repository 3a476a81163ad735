"""Compares a file of Airflow with its translation: which tasks and which order are in it, listed, or lost."""

import ast
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from tidegate.daemon.airflow_import.lost_order import fits, overlap, text_of
from tidegate.daemon.airflow_import.order import read
from tidegate.daemon.airflow_import.sites import Edge, Reading, TaskSite

STUB = ["false"]


class Listed(msgspec.Struct, frozen=True):
    line: int
    end_line: int
    what: str
    why: str
    instead: str


class Verdict(msgspec.Struct):
    """Of one file. `wrong` are its tasks and edges that are neither in the translation nor listed, in words."""

    path: str
    problem: str | None = None
    passes: bool = False
    tasks: Counter[str] = msgspec.field(default_factory=Counter)
    edges: Counter[str] = msgspec.field(default_factory=Counter)
    wrong: list[str] = msgspec.field(default_factory=list)
    reasons: Counter[str] = msgspec.field(default_factory=Counter)
    kinds: Counter[str] = msgspec.field(default_factory=Counter)


class Written(msgspec.Struct, frozen=True):
    """The tasks of a translation by id, which of them are stubs, and its order."""

    stubs: Mapping[str, bool]
    edges: frozenset[tuple[str, str]]
    static: Reading


def verdict(path: str, source: str, document: Mapping[str, Any], checked: Mapping[str, Any] | None) -> Verdict:
    found = Verdict(path, problem=document["problem"])
    if document["text"] is None:
        return found
    listed = [msgspec.convert(entry, Listed) for entry in document["left_out"]]
    found.reasons.update(reason_of(entry) for entry in listed)
    wanted = read(ast.parse(source))
    found.passes = checked is not None and checked["problem"] is None
    if not found.passes and checked is not None:
        found.problem = f"check: {checked['problem']['reason']}"
    written = _written(document["text"], checked if found.passes else None)
    _count_tasks(found, wanted, written, listed)
    _count_edges(found, wanted, written, listed)
    if found.passes and not wanted.unclear:
        _count_added(found, wanted, written, listed)
    return found


def _count_tasks(found: Verdict, wanted: Reading, written: Written, listed: Sequence[Listed]) -> None:
    for task in wanted.tasks:
        state = _task_state(task, written, listed) if found.passes else _unread(found, task, written)
        found.tasks[state if task.is_real else f"empty {state}"] += 1
        if state == "lost":
            found.wrong.append(f"{found.path}:{task.line}: task {task.pattern} ({task.kind})")
        elif state == "stub" and not _covers(listed, task.line, task.end_line) and not _is_listed(listed, text_of(task.pattern)):
            found.wrong.append(f"{found.path}:{task.line}: {task.pattern} fails, and is not listed")
        if state != "translated" and task.is_real:
            found.kinds[f"{task.kind}: {state}"] += 1


_OF_THE_HOST = re.compile(r"FileNotFoundError|there is no environment variable|No module named|PermissionError")


def _unread(found: Verdict, task: TaskSite, written: Written) -> str:
    """The state of a task of a file that check refuses: by the text, if the file only waits for a fact of its host."""
    same = [site for site in written.static.tasks if overlap(task.pattern, site.pattern)]
    works = any(site.kind != "false" for site in same)
    waits = _OF_THE_HOST.search(found.problem or "") is not None
    return "translated, in a file that lacks a fact of its host" if works and waits else "in a file that check refuses"


def _count_edges(found: Verdict, wanted: Reading, written: Written, listed: Sequence[Listed]) -> None:
    for edge in wanted.edges:
        state = _edge_state(edge, written, listed)
        found.edges[state] += 1
        if state == "lost":
            found.wrong.append(f"{found.path}:{edge.line}: {edge.before} >> {edge.after}")
    found.edges["unclear to this survey"] += len(wanted.unclear)


def _count_added(found: Verdict, wanted: Reading, written: Written, listed: Sequence[Listed]) -> None:
    for before, after in sorted(written.edges):
        both = all(any(fits(task.pattern, task_id) for task in wanted.tasks) for task_id in (before, after))
        # The tasks of other modules, and their order, are not in this source.
        if both and not any(_is_edge(edge, before, after) for edge in wanted.edges):
            found.edges["added"] += 1
            if not _is_listed(listed, before) and not _is_listed(listed, after):
                found.wrong.append(f"{found.path}: {before} >> {after} is not in the source")


def reason_of(entry: Listed) -> str:
    """What an entry is about, without the names of the file."""
    what = re.sub(r"'[^']*'", "'…'", entry.what)
    about = re.match(r"(\w+=) of (\w+)", what)
    head = about[1] + " of …" if about else ""
    why = re.sub(r"^\S+ of line \d+ was left out", "a name that was left out", entry.why)
    why = re.sub(r"^(the file does not say what) \S+ is", r"\1 a name is", why)
    why = re.sub(r"^\S+ (is not part of Python's library)", r"a name \1", why)
    why = re.sub(r"^[^:]{3,}: ", "", why)
    if why in ("it has no equivalent", "it needs Airflow", "its class needs Airflow") and not head:
        head = what.split(" ")[0].split("(")[0]
    return f"{head} {why}".strip()[:110]


def _written(text: str, checked: Mapping[str, Any] | None) -> Written:
    static = read(ast.parse(text))
    tasks = [task for dag in checked["dags"] for task in dag.get("tasks", ())] if checked else []
    edges = {(before, task["task_id"]) for task in tasks for before in task.get("upstream", ())}
    return Written({task["task_id"]: task.get("argv") == STUB for task in tasks}, frozenset(edges), static)


def _task_state(task: TaskSite, written: Written, listed: Sequence[Listed]) -> str:
    stubs = [is_stub for task_id, is_stub in written.stubs.items() if fits(task.pattern, task_id)]
    covered = _covers(listed, task.line, task.end_line)
    if stubs:
        return "translated" if not any(stubs) else "stub"
    if any(overlap(task.pattern, site.pattern) for site in written.static.tasks):
        # In a loop or a branch of the file that this reading makes nothing of, or in a module.
        return "translated"
    return "left out" if covered or _is_listed(listed, task.pattern.replace("\\", "")) else "lost"


def _edge_state(edge: Edge, written: Written, listed: Sequence[Listed]) -> str:
    if any(_is_edge(edge, before, after) for before, after in written.edges):
        return "kept"
    made = all(any(fits(pattern, task_id) for task_id in written.stubs) for pattern in (edge.before, edge.after))
    # A branch of the file that is not taken here makes no task.
    if not (edge.is_certain and made) and any(
        overlap(edge.before, other.before) and overlap(edge.after, other.after) for other in written.static.edges
    ):
        return "kept"
    if _covers(listed, edge.line, edge.end_line):
        return "listed"
    return "lost"


def _is_edge(edge: Edge, before: str, after: str) -> bool:
    return fits(edge.before, before) and fits(edge.after, after)


def _covers(listed: Iterable[Listed], line: int, end_line: int) -> bool:
    return any(entry.line <= end_line and line <= entry.end_line for entry in listed)


def _is_listed(listed: Iterable[Listed], name: str) -> bool:
    return any(name and name in entry.what for entry in listed)
