"""Writes the events of a run, if they are too many for its submissions, to a file that the backend takes."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path

import msgspec
from anyio import to_thread

from tidegate.daemon.context import Context
from tidegate.daemon.postgres.database import Database
from tidegate.daemon.settings import spool_root
from tidegate.daemon.spark import event_file
from tidegate.daemon.spark.contract import SubmissionSpec
from tidegate.daemon.spark.runner_backend import nothing_started
from tidegate.schemas.error import SPOOL, UnavailableError
from tidegate.schemas.queries import sources


@asynccontextmanager
async def with_events(context: Context, spec: SubmissionSpec) -> AsyncIterator[SubmissionSpec]:
    """The submission with the file of its events. Raises NotStartedError when Postgres or the spool is away."""
    if spec.events_of is None:
        yield spec
        return
    with _storing():
        create = partial(event_file.create, spool_root(context.settings), spec.submission_id)
        path = await to_thread.run_sync(create, abandon_on_cancel=True)
    try:
        with _storing():
            await _store(context.database, spec.events_of, path)
        yield msgspec.structs.replace(spec, events_file=str(path))
    finally:
        with suppress(OSError):  # it is removed with the temporary files of the submission
            await to_thread.run_sync(partial(path.unlink, missing_ok=True), abandon_on_cancel=True)


@contextmanager
def _storing() -> Iterator[None]:
    with nothing_started():
        try:
            yield
        except OSError as error:
            raise UnavailableError(f"the events of a run cannot be stored: {error}", server=SPOOL) from error


async def _store(database: Database, dag_run_id: int, path: Path) -> None:
    """Each page is a read of its own: a transaction over all of them would be as long as the events are large."""
    for ids in await database.autocommit(sources.event_pages, dag_run_id):
        page = await database.autocommit(sources.page_of_events, ids)
        await to_thread.run_sync(event_file.append, path, page)
