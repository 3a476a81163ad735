"""`tidegate dags plan|versions|source`: what changed DAG files will do, and how to get a former version back."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from tidegate.daemon.cli.command import DagId, Json, Limit
from tidegate.daemon.cli.failure import CHANGES, FAILED
from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.session import at, listed, read_settings, shown, with_database
from tidegate.daemon.settings import Settings, dags_root
from tidegate.daemon.terminal import printable
from tidegate.schemas.dag import archive_of
from tidegate.schemas.error import RequestError

if TYPE_CHECKING:
    from tidegate.daemon.dagfiles.scan import Listing
    from tidegate.daemon.file_plan import FilePlan
    from tidegate.daemon.postgres.database import Database
    from tidegate.schemas.queries.files import KnownFile

VERSION_TITLES = ("VERSION", "STORED", "FILE")

Paths = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="PATHS",
        help="DAG files, modules and folders, relative to the DAG folder or absolute. Default: the DAG folder.",
        show_default=False,
    ),
]

Version = Annotated[int | None, typer.Option(min=1, max=2**31 - 1, help="The number of the version. Default: the current one.")]
Into = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Write the file below this folder, with the modules and applications in Python that were stored with it.",
    ),
]


def plan(context: typer.Context, paths: Paths = None, *, json: Json = False) -> None:
    """Say what DAG files will do once they are live, and change nothing.

    Compares the files of the DAG folder with the state in Postgres: DAGs that come, change or go, their next runs and datasets,
    what becomes of pending events, which runs start at once, and which go on with their version. Deleted files count as deleted.

    Exit code 0 if nothing changes, 4 if something does, 1 if a file is broken, a decision about its DAGs fails or takes too
    long, or a folder with planned files cannot be read.
    """
    from tidegate.daemon.cli.changed_files import below_or_all
    from tidegate.daemon.cli.pages import file_plan as pages

    settings = read_settings(context)
    below = below_or_all(paths or [], dags_root(settings))
    found = with_database(context, lambda database: _plan(database, settings, below))
    output.write_page(found, lambda: pages.print_plan(found), json=json)
    output.say(pages.summary(found))
    if found.problems or found.unplanned or found.unreadable:
        raise typer.Exit(FAILED)
    if found.dags:
        raise typer.Exit(CHANGES)


async def _plan(database: "Database", settings: Settings, below: Sequence[str]) -> "FilePlan":
    from tidegate.daemon.dagfiles.parse import parse_all
    from tidegate.daemon.file_plan import plan_files
    from tidegate.handlers.dag_file_changed import ABSENT_SCANS
    from tidegate.schemas.queries import files

    known = await database.autocommit(files.known, ABSENT_SCANS)
    present = _listing(dags_root(settings))
    paths = wanted(below, present, known)
    closed = present.closed(below)
    for folder in (it for it in present.unreadable if it not in closed):
        output.say(f"note: the folder {folder} cannot be read; the plan does not concern it")
    parsed = await parse_all(settings, paths)
    return msgspec.structs.replace(await plan_files(database, list(parsed.values())), unreadable=[printable(it) for it in closed])


def _listing(root: Path) -> "Listing":
    """The files of the DAG folder. Raises RequestError if it is missing, or it is not known which files are ignored."""
    from tidegate.daemon.dagfiles.scan import listing

    if not root.is_dir():
        raise RequestError(f"the DAG folder {root} does not exist; set TIDEGATE_DAGS_FOLDER")
    found = listing(root)
    if found.problem:
        raise RequestError(found.problem)
    return found


def wanted(below: Sequence[str], present: "Listing", known: Mapping[str, "KnownFile"]) -> Sequence[str]:
    """The DAG files at or below these paths, and the DAG files that read a file there; without paths all.

    A module of an archive stands for the archive.
    Raises RequestError for a path without any, and where a wanted file may be hidden, which would count as deleted.
    """
    chosen = _chosen(below, present, known)
    if hidden := present.hidden(chosen):
        raise _unreadable(present.closed(hidden))
    return sorted(chosen)


def _chosen(below: Sequence[str], present: "Listing", known: Mapping[str, "KnownFile"]) -> set[str]:
    files = {path: {path} | (known[path].imports if path in known else set()) for path in {*present.files, *known}}
    chosen: set[str] = set() if below else set(files)
    for path in below:
        own = {file for file, reads in files.items() if any(f"{read}/".startswith(f"{path}/") for read in reads)}
        if not own and (archive := archive_of(path)) is not None:
            own = {file for file in files if archive_of(f"{file}/") == archive}
        if not own:
            raise _without_files(path, present)
        chosen |= own
    return chosen


def _without_files(path: str, present: "Listing") -> RequestError:
    if closed := present.closed([path]):
        return _unreadable(closed)
    return RequestError(f"{path} is no DAG file: it is neither in the DAG folder nor known to the server, and none reads it")


def _unreadable(folders: Sequence[str]) -> RequestError:
    return RequestError(f"these folders of the DAG folder cannot be read: {', '.join(folders)}; mend their permissions")


def versions(context: typer.Context, dag_id: DagId, *, limit: Limit = 20, json: Json = False) -> None:
    """List the versions of a DAG, newest first: when each was stored, and from which file."""
    from tidegate.daemon.read_model.version import list_versions
    from tidegate.schemas.queries.grid import VersionRow

    path = at("dags", dag_id, "versions")
    found, _ = listed(context, path, VersionRow, lambda db: list_versions(db, dag_id, limit), limit)
    rows = [(row.number, row.created_at, row.path) for row in found]
    output.write_page(found, lambda: output.table(VERSION_TITLES, rows, empty="it has no versions"), json=json)


def source(context: typer.Context, dag_id: DagId, *, version: Version = None, into: Into = None) -> None:
    """Print the DAG file as it was when a version of the DAG was stored.

    To go back, write it over the file in the DAG folder with --into: daemons store it as a new version. Each file is replaced at
    once, the DAG file last; a shell that redirects the output into a live file would empty it first, which removes its DAGs.
    `tidegate dags plan` says for a copy of the folder what that will do. Other DAGs of the file go back with it.
    """
    from tidegate.daemon.cli.replaced_files import replace_all
    from tidegate.daemon.read_model.version import VersionFiles, read_files

    path = at("dags", dag_id, "source")
    found, _ = shown(context, path, VersionFiles, lambda db: read_files(db, dag_id, version), version=version)
    if into is None:
        output.ByteWriter().write(found.files[found.path].encode())
        return
    texts = {_below(into, name): found.files[name] for name in sorted(found.files, key=lambda name: (name == found.path, name))}
    replace_all(texts)
    for target in texts:
        output.write(f"wrote {target}")


def _below(folder: Path, path: str) -> Path:
    """Raises RequestError for a path that leads out of the folder."""
    target = folder / path
    if (archive := archive_of(path)) is not None and (folder / archive).is_file():
        raise RequestError(f"{folder / archive} is an archive; write {path} into another folder, and pack the archive again")
    if not target.resolve().is_relative_to(folder.resolve()):
        raise RequestError(f"{path} of the version is not below {folder}; write it elsewhere")
    return target
