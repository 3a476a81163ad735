"""Writes the events of a run, if they are too many for its submissions, to a file that the backend takes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from tidegate.daemon.context import Context
from tidegate.daemon.settings import spool_root
from tidegate.daemon.spark import event_file
from tidegate.daemon.spark.contract import SubmissionSpec
from tidegate.daemon.spark.runner_backend import SPOOL
from tidegate.schemas.error import UnavailableError
from tidegate.schemas.queries import sources
from tidegate.schemas.queries.db import Db


@asynccontextmanager
async def with_events(context: Context, spec: SubmissionSpec) -> AsyncIterator[SubmissionSpec]:
    """The submission with the file of its events. Raises UnavailableError when Postgres or the spool is away."""
    if spec.events_of is None:
        yield spec
        return
    try:
        path = event_file.create(spool_root(context.settings), spec.submission_id)
        try:
            await context.database.run(_store, spec.events_of, path)
            yield msgspec.structs.replace(spec, events_file=str(path))
        finally:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise UnavailableError(f"the events of a run cannot be stored: {error}", server=SPOOL) from error


async def _store(db: Db, dag_run_id: int, path: Path) -> None:
    """A repeated transaction begins the file anew."""
    with path.open("wb") as file:
        async for page in sources.pages_of_events(db, dag_run_id):
            file.write(event_file.encode(page))
