"""The check of a requested run's conf: outside any transaction, and in a process of its own that can be killed."""

import anyio
import msgspec
from anyio import BrokenWorkerProcess, to_process

from tidegate.daemon.cli.lookup import find_dag
from tidegate.daemon.postgres.database import Database
from tidegate.schemas.error import RequestError
from tidegate.schemas.json_schema import conf_problem
from tidegate.schemas.message import RunRequested
from tidegate.schemas.params import Params, conf_with_defaults
from tidegate.schemas.queries import versions
from tidegate.schemas.queries.db import Db

WITHIN_S = 10.0


async def with_checked_conf(database: Database, request: RunRequested) -> RunRequested:
    """The request, with the parameters of its DAG. Raises RequestError for a conf that does not fit them, or takes too long."""
    params = await database.run(_params, request.dag_id)
    conf = conf_with_defaults(params, request.conf)
    if any(spec.schema for spec in params.values()):
        try:
            with anyio.fail_after(WITHIN_S):
                problem = await to_process.run_sync(conf_problem, params, conf, cancellable=True)
        except (TimeoutError, BrokenWorkerProcess) as error:
            problem = f"its check had no result within {WITHIN_S:g} s; the schemas are too costly, a pattern for instance"
            raise RequestError(_refusal(request, problem)) from error
    else:
        problem = conf_problem(params, conf)
    if problem:
        raise RequestError(_refusal(request, problem))
    return msgspec.structs.replace(request, params=params)


def _refusal(request: RunRequested, problem: str) -> str:
    return f"the conf does not fit DAG {request.dag_id!r}: {problem}"


async def _params(db: Db, dag_id: str) -> Params:
    await find_dag(db, dag_id)
    return (await versions.current_spec(db, dag_id)).params
