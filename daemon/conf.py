"""The check of the conf of requested runs: outside any transaction, and in a process of its own that can be killed."""

import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache
from subprocess import CompletedProcess
from typing import Any

import anyio
import msgspec

from tidegate.daemon.postgres.database import Database
from tidegate.handlers.runs.rejections import no_such_dag
from tidegate.schemas.error import Finding, NotFoundError, UnavailableError, UnfitError
from tidegate.schemas.json_schema import conf_findings, is_cheap
from tidegate.schemas.params import Params, conf_with_defaults
from tidegate.schemas.queries import dag_pages, versions
from tidegate.schemas.queries.db import Db

CPU_S = 10
"""The processor time of a check. A conf that needs more is refused, however busy the host is."""

WALL_S, WAIT_S = 30.0, 10.0
"""The time of a check, and for its start: beyond them the host is too busy, and the request may be repeated."""

OF_DAG, OF_ALL = 2, 8
"""The most checks at a time: a DAG whose schemas are costly leaves room for the others."""

CHECK = (sys.executable, "-P", "-m", "tidegate.daemon.conf_check")
SHOWN = ("HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PATH", "PYTHONPATH")
"""The variables that the process gets: tasks of the same user may read its environment."""

SERVER = "the check of confs"

_processes = anyio.CapacityLimiter(OF_ALL)


async def checked_conf(database: Database, dag_id: str, conf: dict[str, Any], field: str = "conf") -> Params:
    """The parameters of the DAG. Raises UnfitError for a conf that does not fit them, or takes too long to check.

    `field` of the request is the conf.

    Raises UnavailableError for a conf that could not be checked now.
    """
    params = await database.run(_params, dag_id)
    if found := await findings_of(dag_id, params, conf_with_defaults(params, conf)):
        located = [msgspec.structs.replace(finding, pointer=f"/{field}{finding.pointer}") for finding in found]
        raise UnfitError(f"the conf does not fit DAG {dag_id!r}", located, field=field)
    return params


async def findings_of(dag_id: str, params: Params, conf: Mapping[str, Any]) -> list[Finding]:
    """As `conf_findings`, in another process unless the check takes no time."""
    if all(is_cheap(spec.schema, conf.get(name)) for name, spec in params.specs.items()):
        return conf_findings(params, conf)
    async with _turn(dag_id):
        return _answer(await _run(msgspec.json.encode((params, conf))))


@asynccontextmanager
async def _turn(dag_id: str) -> AsyncIterator[None]:
    """One of the processes that may run. Raises UnavailableError if none is free for `WAIT_S`."""
    async with AsyncExitStack() as held:
        try:
            with anyio.fail_after(WAIT_S):
                await held.enter_async_context(_of_dag(dag_id))
                await held.enter_async_context(_processes)
        except TimeoutError as error:
            raise UnavailableError(
                f"other confs are checked, those of DAG {dag_id!r} too; repeat it later", server=SERVER
            ) from error
        yield


@cache
def _of_dag(_dag_id: str) -> anyio.CapacityLimiter:
    return anyio.CapacityLimiter(OF_DAG)


async def _run(question: bytes) -> CompletedProcess[bytes]:
    """Raises UnavailableError if the process cannot be started, or needs more than `WALL_S`."""
    env = {name: os.environ[name] for name in SHOWN if name in os.environ}
    try:
        with anyio.fail_after(WALL_S):
            return await anyio.run_process([*CHECK, str(CPU_S)], input=question, env=env, check=False)
    except TimeoutError as error:
        raise _without_result(f"it did not end within {WALL_S:g} s") from error
    except (OSError, ExceptionGroup) as error:  # a group: the process ended before it had read all
        raise _without_result(f"its process did not run: {error}") from error


def _answer(ended: CompletedProcess[bytes]) -> list[Finding]:
    """What the process wrote. Raises UnavailableError for one that another program has ended."""
    if ended.returncode == -signal.SIGXCPU:
        return [Finding("", f"its check had no result within {CPU_S} s", "make its schemas simpler, a pattern for instance")]
    if ended.returncode != 0:
        said = ended.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise _without_result(f"its process ended with exit code {ended.returncode} {said:.200}".rstrip())
    return msgspec.json.decode(ended.stdout, type=list[Finding])


def _without_result(why: str) -> UnavailableError:
    return UnavailableError(f"the conf could not be checked: {why}; repeat it later", server=SERVER)


async def _params(db: Db, dag_id: str) -> Params:
    if not await dag_pages.list_dags(db, dag_id):
        rejected = no_such_dag(dag_id)
        raise NotFoundError(rejected.message, reason=rejected.reason)
    return (await versions.current_spec(db, dag_id)).conf_params
