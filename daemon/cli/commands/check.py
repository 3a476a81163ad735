"""`tidegate check`: what DAG files say, without any server."""

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import anyio
import msgspec
import typer

from tidegate.daemon.cli.command import Json
from tidegate.daemon.cli.pages import output, tree
from tidegate.daemon.cli.session import settings_of
from tidegate.daemon.settings import Settings, dags_root
from tidegate.schemas.dag import BaseTask, DagSpec, ImportProblem, ParsedFile, kind_of
from tidegate.schemas.error import RequestError

Checked = Mapping[Path, ParsedFile]
"""What files say, by their absolute paths, in order."""

Wanted = Mapping[Path, Sequence[str]]
"""Files below folders: each is parsed as if its folder were the DAG folder."""

Paths = Annotated[
    list[Path] | None,
    typer.Argument(metavar="PATHS", help="Files and folders; else the DAG folder.", show_default=False),
]


def check(context: typer.Context, paths: Paths = None, *, json: Json = False) -> None:
    """Say what DAG files hold, or what is wrong with them.

    They are parsed as a daemon would parse them; no server is needed. Exits with 1 when something is wrong.
    """
    settings = settings_of(context)
    checked = distinct(anyio.run(_parse, settings, _wanted(paths, dags_root(settings))))
    if json:
        output.write_json([_document(path, file) for path, file in checked.items()])
    else:
        for line in report(checked):
            output.write(line)
    broken = sum(file.problem is not None for file in checked.values())
    if not checked:
        output.say("there are no Python files to check")
    if broken:
        output.say(f"{broken} of {len(checked)} files {'is' if broken == 1 else 'are'} broken")
        raise typer.Exit(1)


def report(checked: Checked) -> Iterator[str]:
    """A tree per file, or a line `file:line: reason`."""
    for path, file in checked.items():
        if file.problem is not None:
            yield tree.problem(near(path), file.problem.line, file.problem.reason)
        elif file.dags:
            yield from tree.lines((output.printable(near(path)), [_dag_branch(spec) for spec in file.dags]))
        else:
            yield f"{output.printable(near(path))}  no DAGs"


def distinct(checked: Checked) -> Checked:
    """The same, with a problem where a file has a DAG that an earlier one has."""
    homes: dict[str, Path] = {}
    judged = {}
    for path, file in checked.items():
        taken = next((spec.dag_id for spec in file.dags if homes.setdefault(spec.dag_id, path) != path), None)
        judged[path] = file if taken is None else _refused(file, f"DAG {taken!r} is also in {near(homes[taken])}")
    return judged


def near(path: Path) -> str:
    """A path as one would type it from here."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _wanted(paths: Sequence[Path] | None, dag_folder: Path) -> Wanted:
    """Raises RequestError for a path that does not exist."""
    from tidegate.daemon.dagfiles.scan import listing

    wanted: dict[Path, set[str]] = defaultdict(set)
    for given in paths or [dag_folder]:
        path = Path(os.path.abspath(given))
        if not path.exists():
            hint = "" if paths else "; set TIDEGATE_DAGS_FOLDER, or name the files to check"
            raise RequestError(f"{given} does not exist{hint}")
        root = _root(path, dag_folder)
        below = listing(root).files if path.is_dir() else [str(path.relative_to(root))]
        wanted[root].update(name for name in below if (root / name).is_relative_to(path))
    return {root: sorted(names) for root, names in wanted.items()}


def _root(path: Path, dag_folder: Path) -> Path:
    if path.is_relative_to(dag_folder):
        return dag_folder
    return path if path.is_dir() else path.parent


async def _parse(settings: Settings, wanted: Wanted) -> Checked:
    from tidegate.daemon.dagfiles.parse import Parser, open_parser

    parsed: dict[Path, ParsedFile] = {}

    async def parse(parser: Parser, root: Path, name: str) -> None:
        parsed[root / name] = _present(await parser.parse(name))

    for root, names in wanted.items():
        here = msgspec.structs.replace(settings, dags_folder=str(root))
        async with open_parser(here) as parser, anyio.create_task_group() as tg:
            for name in names:
                tg.start_soon(parse, parser, root, name)
    return dict(sorted(parsed.items()))


def _present(file: ParsedFile) -> ParsedFile:
    if file.digest is not None:
        return file
    return _refused(file, "a daemon ignores it: its name begins with a dot, or .tidegateignore says so")


def _refused(file: ParsedFile, reason: str) -> ParsedFile:
    return msgspec.structs.replace(file, dags=(), problem=ImportProblem(reason=reason))


def _dag_branch(spec: DagSpec) -> tree.Branch:
    text = tree.schedule_text(spec.schedule, spec.timetable, together=spec.together)
    when = f"when {text}" if spec.schedule is not None else text or "when asked to"
    return f"{spec.dag_id}  {when}", tree.task_branches(spec.tasks, _task_label)


def _task_label(task: BaseTask) -> str:
    after = f"after {tree.after_text(task)}" if task.upstream else ""
    updates = f"updates {', '.join(task.outlets)}" if task.outlets else ""
    return f"{task.task_id}  {', '.join(filter(None, (kind_of(task), tree.role_text(task), after, updates)))}"


def _document(path: Path, file: ParsedFile) -> dict[str, Any]:
    return {"path": near(path), "dags": file.dags, "problem": file.problem, "duration_s": file.duration_s}
