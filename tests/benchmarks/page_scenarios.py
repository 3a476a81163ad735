"""Scenario W1: the pages and the API of a large installation.

`make bench ARGS=W1` measures the whole size; `make bench ARGS="W1 --scale 0.01 --repeat 2"` takes two minutes.
`--paint` adds the first paint of the five heaviest pages in Chromium.
Times are those of a client on the same machine that asks one thing at a time, of a web process without Kafka.
"""

import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import asyncpg
import httpx
import msgspec

from tests.benchmarks import peer
from tests.benchmarks.figures import Figure, percentiles, size
from tests.benchmarks.large_installation import Facts, fill
from tests.benchmarks.page_requests import Asked, requests
from tidegate.daemon.api.openapi import PREFIX
from tidegate.daemon.identity.credentials import issue
from tidegate.daemon.permissions import ANY_DAG, Caller, Role
from tidegate.daemon.postgres.database import connect
from tidegate.daemon.postgres.migrate import migrate
from tidegate.daemon.standalone.postgres import Postgres
from tidegate.daemon.standalone.web import Web

SCALE = 1.0
SAMPLES = 4
TARGET_MS = 200
TIMEOUT_S = 30
PAINTED = 5
"""The heaviest pages, whose first paint is measured."""

REFUSED = (
    *(f"/dags/{dag_id}/graph (of a group)" for dag_id in ("hot", "backlog", "dag_000300")),
    *(f"{PREFIX}/dags/{dag_id}/{what}" for dag_id in ("wide", "backlog") for what in ("timetable", "next-runs")),
    *(f"{PREFIX}/dags/*/runs/*/tasks/*/{what}" for what in ("log", "result")),
    *("/losses/*/settle", "/topics/resume (of a partition)", f"{PREFIX}/topics/partitions"),
)
"""The requests that are refused for what is not in the installation: groups, timetables, logs, results, losses, Kafka."""


class Reply(msgspec.Struct, frozen=True):
    """What a request took, and how much came."""

    ms: float
    kib: float


async def w1(repeat: int, scale: float = SCALE, *, paints: bool = False) -> list[Figure]:
    """Each page, and each endpoint of the API that reads, of 100,000 DAGs, 1,000,000 runs and 3,400,000 task instances."""
    async with installation(scale) as (facts, client):
        asked = [each for each in requests(facts) if not any(fnmatchcase(each.what, name) for name in REFUSED)]
        rounds = [await _round(client, asked) for _ in range(repeat + 1)][1:]
        painted = await _painted(client, heaviest(asked, rounds)) if paints else {}
    figures = [figure for each in asked for figure in _figures(each.what, [replies[each.what] for replies in rounds])]
    return [*figures, *(_paint(what, times) for what, times in painted.items())]


Round = Mapping[str, Sequence[Reply]]


def heaviest(asked: Sequence[Asked], rounds: Sequence[Round]) -> list[Asked]:
    """The pages that took longest."""
    pages = [each for each in asked if not each.address.startswith(PREFIX)]
    return sorted(pages, key=lambda each: median(reply.ms for replies in rounds for reply in replies[each.what]))[-PAINTED:]


async def _painted(client: httpx.AsyncClient, asked: Sequence[Asked]) -> Mapping[str, Sequence[float]]:
    """Playwright is imported for the first paints alone."""
    from tests.benchmarks.paint import first_paints  # noqa: PLC0415 - without it, no Chromium is needed

    return await first_paints(client, asked)


def _paint(what: str, times: Sequence[float]) -> Figure:
    (middle,) = percentiles("W1", f"{what}, first paint", [times], [(50, peer.NONE, None)])
    return middle


@asynccontextmanager
async def installation(scale: float) -> AsyncIterator[tuple[Facts, httpx.AsyncClient]]:
    """A filled database, and a client of a web process that reads it."""
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        home = Path(folder)
        home.chmod(0o755)
        async with Postgres(home / "postgres") as postgres:
            await migrate(postgres.dsn)
            facts = await _filled(postgres.dsn, scale)
            settings = {"postgres_dsn": postgres.dsn, "spool_dir": str(home / "spool"), "web_requests_per_s": "0"}
            async with Web(home / "web", settings, 0) as web, client_of(web.address, postgres.dsn) as client:
                yield facts, client


async def _filled(dsn: str, scale: float) -> Facts:
    connection = await asyncpg.connect(dsn)
    try:
        return await fill(connection, scale)
    finally:
        await connection.close()


@asynccontextmanager
async def client_of(address: str, dsn: str, **options: Any) -> AsyncIterator[httpx.AsyncClient]:
    """An operator with a token."""
    async with connect(dsn, writer="bench") as database:
        caller = Caller("bench", Role.ADMIN, ANY_DAG)
        token = (await database.run(issue, "token", caller, timedelta(days=1).total_seconds(), "bench")).secret
    headers = {"authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=address, headers=headers, timeout=TIMEOUT_S, **options) as client:
        yield client


async def _round(client: httpx.AsyncClient, asked: Sequence[Asked]) -> Round:
    return {each.what: [await _reply(client, each) for _ in range(SAMPLES)] for each in asked}


async def _reply(client: httpx.AsyncClient, asked: Asked) -> Reply:
    """Raises AssertionError for a fault and for a refusal: such an answer is no page."""
    began_at = perf_counter()
    answer = await client.get(asked.address)
    ms = (perf_counter() - began_at) * 1000
    if not answer.is_success:
        raise AssertionError(f"{asked.address}: {answer.status_code} {answer.text[:2000]}")
    return Reply(ms, len(answer.content) / 1024)


def _figures(what: str, rounds: Sequence[Sequence[Reply]]) -> list[Figure]:
    times = [[reply.ms for reply in replies] for replies in rounds]
    wanted = ((50, peer.NONE, None), (95, peer.NONE, TARGET_MS))
    sizes = [max(reply.kib for reply in replies) for replies in rounds]
    return [*percentiles("W1", what, times, wanted), size("W1", what, sizes)]
