"""The entry of the audit log for a request that is refused: one for each, whatever refuses it."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from tidegate.daemon.audit_entry import record_refusal
from tidegate.daemon.gateway.endpoint import Act, Call, Endpoint, Stream, check_right, names_of
from tidegate.daemon.permissions import Right
from tidegate.daemon.read_model.lookup import NEWEST_RUN
from tidegate.schemas.effect.audit import OF_DAG, object_name
from tidegate.schemas.error import DagFaultError, ForbiddenError, RequestError
from tidegate.schemas.queries import backfill_pages, run_pages
from tidegate.schemas.queries.db import Db


class Attempt:
    """A request at work, and its body as far as it is known."""

    body: Any = None


@asynccontextmanager
async def recording_refusals(call: Call[Any], endpoint: Endpoint | Stream[Any]) -> AsyncIterator[Attempt]:
    """The work of a caller with the right to it. Raises ForbiddenError.

    A change that is refused, there or later, is recorded in the audit log, and so is any other request without the right.
    """
    attempt = Attempt()
    try:
        check_right(call, endpoint.right, getattr(call.params, "dag_id", None))
        yield attempt
    except (RequestError, DagFaultError) as error:
        if _is_audited(endpoint, attempt.body, error) and not error.is_recorded:
            await _record(call, endpoint, attempt.body, error)
        raise


def _is_audited(endpoint: Endpoint | Stream[Any], body: Any, error: Exception) -> bool:
    if endpoint.right is Right.VIEW:
        return False
    if not isinstance(endpoint, Act):
        return isinstance(error, ForbiddenError)
    return body is None or endpoint.only_shows is None or not endpoint.only_shows(body)


async def _record(call: Call[Any], endpoint: Endpoint | Stream[Any], body: Any, error: Exception) -> None:
    details = {"request": f"{endpoint.method} {endpoint.path}", "reason": str(error)}
    about = OF_DAG
    if isinstance(endpoint, Act):
        about = endpoint.about
        details["would_have"] = endpoint.does if endpoint.says is None or body is None else endpoint.says(body)
    names = await call.database.run(_resolved, names_of(call.params, body), getattr(call.params, "backfill_id", None))
    await record_refusal(call.database, call.caller.username, object_name(about, **names), details)


async def _resolved(db: Db, names: Mapping[str, Any], backfill_id: int | None) -> Mapping[str, Any]:
    """The names with the run that `latest` is, and the DAG of a backfill; without what does not exist."""
    if names.get("run_id") == NEWEST_RUN:
        run = await run_pages.run_of(db, names["dag_id"], None)
        return {**names, "run_id": run and run.run_id}
    if backfill_id is not None:
        found = await backfill_pages.list_backfills(db, ids=[backfill_id], deleted=True)
        return {**names, "dag_id": found[0].dag_id if found else None}
    return names
