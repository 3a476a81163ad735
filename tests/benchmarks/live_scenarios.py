"""Scenario W2: open pages follow changes as browsers do.

`make bench ARGS="W2 --repeat 2"` takes about four minutes. The daemon, Postgres, the broker, the web process and this program,
which is all of the browsers, share the machine.
"""

import html
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from http import HTTPStatus
from time import perf_counter, time
from typing import Any

import anyio
import httpx
import msgspec
import psutil
from anyio.abc import TaskGroup

from tests.benchmarks import peer
from tests.benchmarks.bench import Bench, bench
from tests.benchmarks.event_scenarios import ONE, latency_ms
from tests.benchmarks.figures import Figure, percentiles, rate
from tests.benchmarks.page_scenarios import client_of
from tests.benchmarks.task_scenarios import prepare_wide
from tidegate.daemon.standalone.web import Web
from tidegate.events import Publisher

DAGS = 100
PAGES = 500
LISTS = 50
RUNS_PER_S = 17
"""Each makes twelve changes: three of the run, three of each task."""

DAG_PAUSE_S, LIST_PAUSE_S, AGAIN_S = 1.0, 5.0, 5.0
FACTOR = 10
"""As in `daemon/web/static/page.js`: a page that takes long to read is read less often."""

MEASURED_S = 20.0
SAMPLES = 100
OPENED_AT_ONCE = 8

LIVE = f"""
from tidegate import Dag, Dataset

for number in range({DAGS}):
    with Dag(f"live_{{number}}", schedule=Dataset(f"bench://live/{{number}}"), max_active_runs=1000) as dag:
        for task in range(3):
            dag.command(f"t{{task}}", ["instant"], pool="wide")
"""

SUCCEEDED = "SELECT count(*) FROM dag_run WHERE id > $1 AND state = 'success' AND dag_id = 'consumer'"

STREAM = re.compile(r'data-live="([^"]+)"')
ABOUT = re.compile(r'data-dag="([^"]+)"')

FOREVER = httpx.Timeout(60, read=None)

Browser = Callable[["Pages", httpx.AsyncClient, str, float], Coroutine[Any, Any, None]]


class Pages(msgspec.Struct):
    """What open pages saw: `lags_ms` from the decision of a change to its message, `shown_ms` from that to the page read anew."""

    opened: int = 0
    changes: int = 0
    refused: int = 0
    all_open: anyio.Event = msgspec.field(default_factory=anyio.Event)
    lags_ms: list[float] = []
    shown_ms: list[float] = []

    def clear(self) -> None:
        self.changes, self.refused, self.lags_ms, self.shown_ms = 0, 0, [], []


async def w2(repeat: int) -> list[Figure]:
    """500 open pages under 200 changes a second: the lag of their messages, the processor of the web process, and A meanwhile."""
    async with (
        bench(ONE + LIVE, 1 + DAGS, instant=True, prepare=prepare_wide) as ready,
        Publisher(ready.kafka.bootstrap, source="bench", timeout_s=60) as publisher,
        anyio.create_task_group() as tg,
    ):
        tg.start_soon(_steadily, publisher)
        await anyio.sleep(5)
        figures = await _beside(ready, publisher, repeat, "no page open")
        for what, browser in (("500 streams", follow), ("500 pages that are read anew", look)):
            async with _open(ready, browser) as (web, pages):
                figures += await _measured(web, pages, what)
                figures += await _beside(ready, publisher, repeat, what)
        tg.cancel_scope.cancel()
    return figures


async def _steadily(publisher: Publisher) -> None:
    """Runs of all DAGs in turn. Missed ones are made up for."""
    began_at, sent = perf_counter(), 0
    while True:
        for number in range(sent, wanted := int((perf_counter() - began_at) * RUNS_PER_S)):
            await publisher.dataset_updated(f"bench://live/{number % DAGS}")
        sent = wanted
        await anyio.sleep(0.02)


async def _beside(ready: Bench, publisher: Publisher, repeat: int, what: str) -> list[Figure]:
    """The latency of A under the same changes."""
    measure = partial(latency_ms, ready, publisher, every_s=0.001, succeeded=SUCCEEDED)
    rounds = [[await measure() for _ in range(SAMPLES)] for _ in range(repeat + 1)][1:]
    return percentiles("W2", f"A, {what}", rounds, ((50, peer.NONE, None), (99, peer.NONE, None)))


@asynccontextmanager
async def _open(ready: Bench, browser: Browser) -> AsyncIterator[tuple[Web, Pages]]:
    """A web process of its own, with all pages open, and one stream of all changes."""
    settings = {**ready.settings, "web_requests_per_s": "0", "web_streams": "1000", "web_connections": "8"}
    pages, limits = Pages(), httpx.Limits(max_connections=None, max_keepalive_connections=50)
    async with (
        Web(ready.daemon.home.with_name(f"web-{browser.__name__}"), settings, 0) as web,
        client_of(web.address, ready.postgres.dsn, limits=limits) as client,
        anyio.create_task_group() as tg,
    ):
        tg.start_soon(_probe, pages, client)
        await _open_pages(tg, partial(browser, pages, client), pages)
        yield web, pages
        tg.cancel_scope.cancel()


async def _open_pages(tg: TaskGroup, browser: Callable[[str, float], Coroutine[Any, Any, None]], pages: Pages) -> None:
    """A few at a time: a page is open once it has been read."""
    for number in range(PAGES):
        address, pause_s = ("/", LIST_PAUSE_S) if number < LISTS else (f"/dags/live_{number % DAGS}", DAG_PAUSE_S)
        tg.start_soon(browser, address, pause_s)
        while number - pages.opened >= OPENED_AT_ONCE:
            await anyio.sleep(0.01)
    while pages.opened < PAGES:
        await anyio.sleep(0.01)
    pages.all_open.set()


async def _probe(pages: Pages, client: httpx.AsyncClient) -> None:
    """Every change, with the time of its decision by the clock of this machine."""
    async with client.stream("GET", "/api/v1/stream", timeout=FOREVER) as answer:
        async for line in answer.aiter_lines():
            if line.startswith("data: {") and (at := msgspec.json.decode(line[6:]).get("at")):
                pages.changes += 1
                pages.lags_ms.append((time() - datetime.fromisoformat(at).timestamp()) * 1000)


async def follow(pages: Pages, client: httpx.AsyncClient, address: str, _pause_s: float) -> None:
    """The page is read once, and its stream is followed."""
    async for _ in _changes(pages, client, address):
        pass


async def look(pages: Pages, client: httpx.AsyncClient, address: str, pause_s: float) -> None:
    """The page is read anew after a change, once all are open; not again within `pause_s`, nor ten times what that took."""
    changed, first_at = anyio.Event(), perf_counter()

    async def read_again() -> None:
        nonlocal changed
        await pages.all_open.wait()
        while True:
            await changed.wait()
            changed, since, began_at = anyio.Event(), first_at, perf_counter()
            await _read(pages, client, address)
            ended_at = perf_counter()
            pages.shown_ms.append((ended_at - since) * 1000)
            await anyio.sleep(max(pause_s, FACTOR * (ended_at - began_at)))

    async with anyio.create_task_group() as tg:
        tg.start_soon(read_again)
        async for at in _changes(pages, client, address):
            first_at = first_at if changed.is_set() else at
            changed.set()


async def _changes(pages: Pages, client: httpx.AsyncClient, address: str) -> AsyncIterator[float]:
    """Read a page, and follow the stream that it names: the times of its messages."""
    page = await _read(pages, client, address)
    found = STREAM.search(page.text)
    if found is None:
        raise AssertionError(f"{address} names no stream")
    about = ABOUT.search(page.text)
    of_dag = f"&dag_id={about[1]}" if about else ""  # a browser has one stream for all its pages; these have one page each
    async with client.stream("GET", html.unescape(found[1]) + of_dag, timeout=FOREVER) as answer:
        pages.opened += 1
        async for line in answer.aiter_lines():
            if line == "event: changed":
                yield perf_counter()


async def _read(pages: Pages, client: httpx.AsyncClient, address: str) -> httpx.Response:
    """The page, once the server has a connection to Postgres left for it."""
    while (answer := await client.get(address)).status_code == HTTPStatus.SERVICE_UNAVAILABLE:
        pages.refused += 1
        await anyio.sleep(AGAIN_S)
    return answer.raise_for_status()


async def _measured(web: Web, pages: Pages, what: str) -> list[Figure]:
    process = psutil.Process(web.pid)
    await anyio.sleep(2)
    pages.clear()
    before, began_at = _cpu_s(process), perf_counter()
    await anyio.sleep(MEASURED_S)
    took_s = perf_counter() - began_at
    cpu = (_cpu_s(process) - before) / took_s * 100
    wanted = ((50, peer.NONE, None), (99, peer.NONE, 1000))
    return [
        rate("W2", f"{what}: changes", "/s", [pages.changes / took_s], peer.NONE, None),
        _cost(f"{what}: processor of the web process", "%", cpu),
        rate("W2", f"{what}: pages read", "/s", [len(pages.shown_ms) / took_s], peer.NONE, None),
        _cost(f"{what}: pages refused, for want of a connection", "", pages.refused),
        *percentiles("W2", f"{what}: decision → message", [pages.lags_ms], wanted),
        *_shown(pages.shown_ms, what),
    ]


def _cost(what: str, unit: str, value: float) -> Figure:
    return msgspec.structs.replace(rate("W2", what, unit, [value], peer.NONE, None), lower_is_better=True)


def _shown(times: Sequence[float], what: str) -> list[Figure]:
    wanted = ((50, peer.NONE, None), (99, peer.NONE, None))
    return percentiles("W2", f"{what}: message → page, with the pause", [times], wanted) if times else []


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system
