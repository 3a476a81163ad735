"""The check of the conf of requested runs: outside any transaction, and in a process of its own that can be killed."""

from typing import Any

import anyio
from anyio import BrokenWorkerProcess, to_process

from tidegate.daemon.postgres.database import Database
from tidegate.handlers.runs.rejections import no_such_dag
from tidegate.schemas.error import NotFoundError, RequestError
from tidegate.schemas.json_schema import conf_problem
from tidegate.schemas.params import Params, conf_with_defaults
from tidegate.schemas.queries import dag_pages, versions
from tidegate.schemas.queries.db import Db

WITHIN_S = 10.0


async def checked_conf(database: Database, dag_id: str, conf: dict[str, Any]) -> Params:
    """The parameters of the DAG. Raises RequestError for a conf that does not fit them, or takes too long to check."""
    params = await database.run(_params, dag_id)
    whole = conf_with_defaults(params, conf)
    if any(spec.schema for spec in params.values()):
        try:
            with anyio.fail_after(WITHIN_S):
                problem = await to_process.run_sync(conf_problem, params, whole, cancellable=True)
        except (TimeoutError, BrokenWorkerProcess) as error:
            problem = f"its check had no result within {WITHIN_S:g} s; the schemas are too costly, a pattern for instance"
            raise RequestError(_refusal(dag_id, problem)) from error
    else:
        problem = conf_problem(params, whole)
    if problem:
        raise RequestError(_refusal(dag_id, problem))
    return params


def _refusal(dag_id: str, problem: str) -> str:
    return f"the conf does not fit DAG {dag_id!r}: {problem}"


async def _params(db: Db, dag_id: str) -> Params:
    if not await dag_pages.list_dags(db, dag_id):
        rejected = no_such_dag(dag_id)
        raise NotFoundError(rejected.message, reason=rejected.reason)
    return (await versions.current_spec(db, dag_id)).params
