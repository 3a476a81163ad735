"""`tidegate check`: parse DAG files without a server."""

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from tidegate.daemon.cli.command import Json
from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.session import read_settings
from tidegate.daemon.settings import Settings, dags_root
from tidegate.schemas.dag import ImportProblem, ParsedFile
from tidegate.schemas.error import RequestError

ParsedFiles = Mapping[Path, ParsedFile]
"""By absolute path, in order."""

FilesByFolder = Mapping[Path, Sequence[str]]
"""Relative paths; each file is parsed as if its folder were the DAG folder."""

Paths = Annotated[
    list[Path] | None,
    typer.Argument(metavar="PATHS", help="Files and folders. Default: the DAG folder.", show_default=False),
]


def check(context: typer.Context, paths: Paths = None, *, json: Json = False) -> None:
    """Parse DAG files as a daemon does, and print their DAGs and tasks, or what is wrong with them.

    Needs no server. Exit code 1 if a file is broken.
    """
    import anyio

    from tidegate.daemon.cli.pages import dag_files

    settings = read_settings(context)
    files = reject_duplicates(anyio.run(_parse, settings, _files_by_folder(paths, dags_root(settings))))
    if json:
        output.write_json([dag_files.document(path, file) for path, file in files.items()])
    else:
        for line in dag_files.lines(files):
            output.write(line)
    broken = sum(file.problem is not None for file in files.values())
    if not files:
        output.say("there are no Python files to check")
    if broken:
        output.say(f"{broken} of {len(files)} files {'is' if broken == 1 else 'are'} broken")
        raise typer.Exit(1)


def reject_duplicates(files: ParsedFiles) -> ParsedFiles:
    """Add a problem to each file with a DAG of an earlier file."""
    from tidegate.daemon.cli.pages.dag_files import short_path

    homes: dict[str, Path] = {}
    checked = {}
    for path, file in files.items():
        taken = next((spec.dag_id for spec in file.dags if homes.setdefault(spec.dag_id, path) != path), None)
        problem = None if taken is None else f"DAG {taken!r} is also in {short_path(homes[taken])}"
        checked[path] = file if problem is None else _with_problem(file, problem)
    return checked


def _files_by_folder(paths: Sequence[Path] | None, dag_folder: Path) -> FilesByFolder:
    """Raises RequestError for a path that does not exist."""
    from tidegate.daemon.dagfiles.scan import listing

    files: dict[Path, set[str]] = defaultdict(set)
    for argument in paths or [dag_folder]:
        path = Path(os.path.abspath(argument))
        if not path.exists():
            hint = "" if paths else "; set TIDEGATE_DAGS_FOLDER, or pass the files to check"
            raise RequestError(f"{argument} does not exist{hint}")
        root = _root(path, dag_folder)
        below = listing(root).files if path.is_dir() else [str(path.relative_to(root))]
        files[root].update(name for name in below if (root / name).is_relative_to(path))
    return {root: sorted(names) for root, names in files.items()}


def _root(path: Path, dag_folder: Path) -> Path:
    if path.is_relative_to(dag_folder):
        return dag_folder
    return path if path.is_dir() else path.parent


async def _parse(settings: Settings, files: FilesByFolder) -> ParsedFiles:
    from tidegate.daemon.dagfiles.parse import parse_all

    parsed: dict[Path, ParsedFile] = {}
    for root, names in files.items():
        of_folder = await parse_all(msgspec.structs.replace(settings, dags_folder=str(root)), names)
        parsed |= {root / name: _reject_ignored(file) for name, file in of_folder.items()}
    return dict(sorted(parsed.items()))


def _reject_ignored(file: ParsedFile) -> ParsedFile:
    if file.digest is not None:
        return file
    return _with_problem(file, "daemons ignore it: its name begins with a dot, or .tidegateignore excludes it")


def _with_problem(file: ParsedFile, reason: str) -> ParsedFile:
    return msgspec.structs.replace(file, dags=(), problem=ImportProblem(reason=reason))
