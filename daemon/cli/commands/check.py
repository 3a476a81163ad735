"""`tidegate check`: parse DAG files, and find mistakes in them, without a server."""

import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import msgspec
import typer

from tidegate.daemon.cli.command import Json
from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.session import query, read_settings, remote
from tidegate.daemon.settings import Settings, dags_root
from tidegate.schemas.dag import ARCHIVE, ImportProblem, ParsedFile, archive_of
from tidegate.schemas.error import RequestError, TidegateError
from tidegate.schemas.text import counted

if TYPE_CHECKING:
    from tidegate.daemon.lint.finding import Findings
    from tidegate.daemon.lint.installation import Installation
    from tidegate.schemas.cluster import Clusters
    from tidegate.schemas.queries.db import Db

ParsedFiles = Mapping[Path, ParsedFile]
"""By absolute path, in order."""

FilesByFolder = Mapping[Path, Sequence[str]]
"""Relative paths; each file is parsed as if its folder were the DAG folder."""

CLOSED = "this folder cannot be read, so no file in it was checked; mend its permissions, or exclude it by .tidegateignore"


class Selection(NamedTuple):
    """The files to check, and the folders at, above or below the arguments that could not be read."""

    files: FilesByFolder
    closed: Collection[Path]


Paths = Annotated[
    list[Path] | None,
    typer.Argument(metavar="PATHS", help="Files and folders. Default: the DAG folder.", show_default=False),
]


InSandbox = Annotated[
    bool, typer.Option("--sandbox", help="Print what isolates DAG files on this host, and what they reach; check no file.")
]


def check(context: typer.Context, paths: Paths = None, *, sandbox: InSandbox = False, json: Json = False) -> None:
    """Parse DAG files as a daemon does, and print their DAGs and tasks, or what is wrong with them.

    Also found: missing application files, templates that cannot be rendered, Spark settings that tasks may not set, clusters that
    TIDEGATE_SPARK_CLUSTERS lacks. Noted: what works, and seems not to be meant so, such as dates in DAGs whose runs have none, a
    schedule that never comes, a catch-up of very many runs, and shell syntax in a command, which has no shell.
    Needs no server. With one (TIDEGATE_POSTGRES_DSN or --server), pools and datasets are compared with its state.
    Exit code 1 if a file is broken or a folder cannot be read, else 3 if the server is away. With --sandbox, 1 if DAG files
    reach something of this host.
    """
    import anyio

    from tidegate.daemon.cli.pages import dag_files

    settings = read_settings(context)
    if sandbox:
        from tidegate.daemon.cli.commands.check_sandbox import check_sandbox

        check_sandbox(settings, json=json)
        return
    chosen = select(paths, dags_root(settings))
    files = reject_duplicates(anyio.run(_parse, settings, chosen.files))
    installation, away = _ask(context, files)
    shown = {**files, **_closed(chosen.closed)}
    found = _findings(shown, installation, settings.clusters)
    if json:
        output.write_json([dag_files.document(path, file, found[path]) for path, file in shown.items()])
    else:
        for line in dag_files.lines(shown, found):
            output.write(line)
    for note in dag_files.notes(shown, found):
        output.say(note)
    _end(files, found, len(chosen.closed), away)


def _closed(folders: Iterable[Path]) -> ParsedFiles:
    """Folders that could not be read, as files with that problem."""
    return {folder: ParsedFile(path=folder.name, digest=None, problem=ImportProblem(reason=CLOSED)) for folder in folders}


def _end(files: ParsedFiles, found: "Mapping[Path, Findings]", closed: int, away: TidegateError | None) -> None:
    """Raises Exit with 1 if files are broken or folders closed, else the error of a server that was to be asked."""
    broken = sum(file.problem is not None or bool(found[path].mistakes) for path, file in files.items())
    if not files and not closed:
        output.say("there are no Python files to check")
    if broken:
        output.say(f"{broken} of {len(files)} files {'is' if broken == 1 else 'are'} broken")
    if closed:
        output.say(f"{counted(closed, 'folder', 'folders')} could not be read")
    if away is not None and (broken or closed):
        output.say(f"pools and datasets were not compared: {away}")
    if broken or closed:
        raise typer.Exit(1)
    if away is not None:
        raise away


def _findings(files: ParsedFiles, installation: "Installation | None", clusters: "Clusters") -> "Mapping[Path, Findings]":
    from tidegate.daemon.lint.installation import outlets_of
    from tidegate.daemon.lint.rules import findings_of

    outlets = outlets_of(spec for file in files.values() for spec in file.dags)
    return {path: findings_of(file, _folder(path, file), outlets, installation, clusters) for path, file in files.items()}


def _folder(path: Path, file: ParsedFile) -> Path:
    """The DAG folder of a file."""
    return path.parents[len(Path(file.path).parts) - 1]


def _ask(context: typer.Context, files: ParsedFiles) -> "tuple[Installation | None, TidegateError | None]":
    """The state of the installation that the settings name, if there is one, or why it is not known."""
    from tidegate.daemon.lint.installation import inputs_of, outlets_of

    specs = [spec for file in files.values() for spec in file.dags]
    uris = sorted(inputs_of(specs) - outlets_of(specs))
    settings = read_settings(context)
    try:
        return (_installation(context, uris) if settings.server or settings.postgres_dsn else None), None
    except TidegateError as error:
        return None, error


def _installation(context: typer.Context, uris: Sequence[str]) -> "Installation":
    from tidegate.daemon.lint.installation import Installation
    from tidegate.schemas.queries import datasets, pools

    async def read(db: "Db") -> tuple[list[pools.PoolRow], set[str]]:
        return await pools.list_pools(db), await datasets.supplied(db, uris)

    if (server := remote(context)) is None:
        found, known = query(context, read)
    else:
        found = server.rows("/pools", pools.PoolRow, None, {})
        # The first dataset of a prefix is the one of that name, if there is one.
        named = [row for uri in uris for row in server.rows("/datasets", datasets.DatasetRow, 1, {"prefix": uri})]
        known = {row.uri for row in named if row.events or row.producers}
    return Installation({pool.name for pool in found}, known)


def reject_duplicates(files: ParsedFiles) -> ParsedFiles:
    """Add a problem to each file with a DAG of an earlier file."""
    from tidegate.daemon.cli.pages.dag_files import short_path

    homes: dict[str, Path] = {}
    checked = {}
    for path, file in files.items():
        taken = [spec.dag_id for spec in file.dags if homes.setdefault(spec.dag_id, path) != path]
        problem = ", ".join(f"DAG {dag_id!r} is also in {short_path(homes[dag_id])}" for dag_id in taken)
        checked[path] = _with_problem(file, problem) if problem else file
    return checked


def select(paths: Sequence[Path] | None, dag_folder: Path) -> Selection:
    """Raises RequestError for a path that does not exist."""
    files: dict[Path, set[str]] = defaultdict(set)
    closed: dict[Path, None] = {}
    for argument in paths or [dag_folder]:
        path = Path(os.path.abspath(argument))
        if not path.exists() and not path.parent.is_file():
            hint = "" if paths else "; set TIDEGATE_DAGS_FOLDER, or pass the files to check"
            raise RequestError(f"{argument} does not exist{hint}")
        root = _root(path, dag_folder)
        below, unread = _listed(root, path)
        files[root].update(name for name in below if (root / name).is_relative_to(path))
        closed |= dict.fromkeys(root / folder for folder in unread)
    return Selection({root: sorted(names) for root, names in files.items()}, closed)


def _listed(root: Path, path: Path) -> tuple[Iterable[str], Iterable[str]]:
    """The files below `root`, or those of the file `path`; and the folders that may hide files of `path`."""
    from tidegate.daemon.dagfiles.scan import files_of, listing

    name = str(path.relative_to(root))
    if not path.is_dir():
        return [name, *files_of(root, name)], ()
    found = listing(root)
    return found.files, found.closed([] if path == root else [name])


def _root(path: Path, dag_folder: Path) -> Path:
    if path.is_relative_to(dag_folder):
        return dag_folder
    return path if path.is_dir() else path.parent.parent if path.parent.is_file() else path.parent


async def _parse(settings: Settings, files: FilesByFolder) -> ParsedFiles:
    from tidegate.daemon.dagfiles.parse import parse_all

    parsed: dict[Path, ParsedFile] = {}
    for root, names in files.items():
        of_folder = await parse_all(msgspec.structs.replace(settings, dags_folder=str(root)), names)
        parsed |= {root / name: _reject_ignored(file) for name, file in of_folder.items() if not _is_good_archive(file)}
    return dict(sorted(parsed.items()))


def _is_good_archive(file: ParsedFile) -> bool:
    """An archive says only what is wrong with it: its files have the DAGs."""
    return file.path.endswith(ARCHIVE) and file.digest is not None and file.problem is None


def _reject_ignored(file: ParsedFile) -> ParsedFile:
    if file.digest is not None:
        return file
    if archive_of(file.path) is not None:
        return _with_problem(file, "its archive has no such file, or .tidegateignore excludes it")
    if file.path.endswith(ARCHIVE):
        return _with_problem(
            file, "daemons ignore it: its root has no Python file, or .tidegateignore excludes it or all of these"
        )
    return _with_problem(file, "daemons ignore it: its name begins with a dot, or .tidegateignore excludes it")


def _with_problem(file: ParsedFile, reason: str) -> ParsedFile:
    return msgspec.structs.replace(file, dags=(), problem=ImportProblem(reason=reason))
