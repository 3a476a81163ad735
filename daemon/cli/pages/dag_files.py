"""The page of `check`: a tree per DAG file, and a line `file:line: reason` for each mistake."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tidegate.daemon.cli.pages import tree
from tidegate.daemon.lint.finding import Findings
from tidegate.daemon.read_model.condition import Branch, schedule_text
from tidegate.daemon.terminal import printable
from tidegate.schemas.dag import BaseTask, DagSpec, ImportProblem, ParsedFile, kind_of

NO_DAG_FILE = "it does not compile, and is broken if it had DAGs; no name in it speaks of any, so else it is no DAG file"


def lines(files: Mapping[Path, ParsedFile], found: Mapping[Path, Findings]) -> Iterator[str]:
    for path, file in files.items():
        yield from (tree.problem(short_path(path), mistake.line, mistake.sentence) for mistake in found[path].mistakes)
        if file.problem is not None:
            yield tree.problem(short_path(path), file.problem.line, file.problem.reason)
        elif file.dags:
            yield from tree.lines((printable(short_path(path)), [_dag_branch(spec) for spec in file.dags]))
        else:
            yield f"{printable(short_path(path))}  no DAGs"


def notes(files: Mapping[Path, ParsedFile], found: Mapping[Path, Findings]) -> Iterator[str]:
    for path, file in files.items():
        if file.uncompiled is not None:
            why = f"{NO_DAG_FILE}: {file.uncompiled.reason}"
            yield tree.problem(short_path(path), file.uncompiled.line, f"note: {why}")
        yield from (tree.problem(short_path(path), note.line, f"note: {note.sentence}") for note in found[path].notes)


def document(path: Path, file: ParsedFile, found: Findings) -> dict[str, Any]:
    """`problem` is the first one. JSON lacks some characters that names of folders may have."""
    first = next((ImportProblem(reason=mistake.sentence, line=mistake.line) for mistake in found.mistakes), None)
    return {
        "path": printable(short_path(path)),
        "dags": file.dags,
        "problem": file.problem or first,
        "mistakes": found.mistakes,
        "notes": found.notes,
        "uncompiled": file.uncompiled,
        "duration_s": file.duration_s,
    }


def short_path(path: Path) -> str:
    """The path relative to the working directory if it is below it."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _dag_branch(spec: DagSpec) -> Branch:
    text = schedule_text(spec.schedule, spec.timetable, together=spec.together)
    schedule = f"when {text}" if spec.schedule is not None else text or "when asked to"
    return f"{spec.dag_id}  {schedule}", tree.task_branches(spec.tasks, _task_label)


def _task_label(task: BaseTask) -> str:
    after = f"after {tree.after_text(task)}" if task.upstream else ""
    updates = f"updates {', '.join(task.outlets)}" if task.outlets else ""
    return f"{task.task_id}  {', '.join(filter(None, (kind_of(task), tree.role_text(task), after, updates)))}"
