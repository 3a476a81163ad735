"""`tidegate dags plan`: says what changed DAG files will do."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.daemon.cli.command import Json
from tidegate.daemon.cli.failure import CHANGES, FAILED
from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.session import read_settings, with_database
from tidegate.daemon.settings import Settings, dags_root
from tidegate.schemas.error import RequestError

if TYPE_CHECKING:
    from tidegate.daemon.file_plan import FilePlan
    from tidegate.daemon.postgres.database import Database
    from tidegate.schemas.queries.files import KnownFile

Paths = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="PATHS",
        help="DAG files, modules and folders, relative to the DAG folder or absolute. Default: the DAG folder.",
        show_default=False,
    ),
]


def plan(context: typer.Context, paths: Paths = None, *, json: Json = False) -> None:
    """Say what DAG files will do once they are live, and change nothing.

    Compares the files of the DAG folder with the state in Postgres: DAGs that come, change or go, their next runs and datasets,
    what becomes of pending events, which runs start at once, and which go on with their version. Deleted files count as deleted.

    Exit code 0 if nothing changes, 4 if something does, 1 if a file is broken.
    """
    from tidegate.daemon.cli.changed_files import below_folder
    from tidegate.daemon.cli.pages import file_plan as pages

    settings = read_settings(context)
    below = below_folder(paths or [], dags_root(settings))
    found = with_database(context, lambda database: _plan(database, settings, below))
    output.write_page(found, lambda: pages.print_plan(found), json=json)
    output.say(pages.summary(found))
    if found.problems:
        raise typer.Exit(FAILED)
    if found.dags:
        raise typer.Exit(CHANGES)


async def _plan(database: "Database", settings: Settings, below: Sequence[str]) -> "FilePlan":
    from tidegate.daemon.dagfiles.parse import parse_all
    from tidegate.daemon.dagfiles.scan import listing
    from tidegate.daemon.file_plan import plan_files
    from tidegate.handlers.dag_file_changed import ABSENT_SCANS
    from tidegate.schemas.queries import files

    known = await database.autocommit(files.known, ABSENT_SCANS)
    parsed = await parse_all(settings, wanted(below, listing(dags_root(settings)).files, known))
    return await plan_files(database, list(parsed.values()))


def wanted(below: Sequence[str], present: Iterable[str], known: Mapping[str, "KnownFile"]) -> Sequence[str]:
    """The DAG files at or below these paths, and the DAG files that read a file there; without paths all.

    Raises RequestError for a path without any.
    """
    files = {path: {path} | (known[path].imports if path in known else set()) for path in {*present, *known}}
    chosen: set[str] = set() if below else set(files)
    for path in below:
        own = {file for file, reads in files.items() if any(f"{read}/".startswith(f"{path}/") for read in reads)}
        if not own:
            raise RequestError(
                f"{path} is no DAG file: it is neither in the DAG folder nor known to the server, and none reads it"
            )
        chosen |= own
    return sorted(chosen)
