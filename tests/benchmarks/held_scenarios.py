"""Scenario J: the cost of a transaction that another client holds open, which keeps dead rows from being removed."""

import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from statistics import median
from time import perf_counter

import anyio
import asyncpg
import psutil

from tests.benchmarks import peer
from tests.benchmarks.bench import Bench, bench, repeated
from tests.benchmarks.event_scenarios import DATASETS, ONE, QUEUED, SAMPLES, ingest_per_s, latency_ms
from tests.benchmarks.figures import Figure, duration, percentiles, rate
from tidegate.events import Publisher

MINUTES = 30.0
LOAD_PER_S = 20
"""Events per second in between, each of which makes a run."""

DEAD = "SELECT relname, n_dead_tup FROM pg_stat_user_tables WHERE n_dead_tup > 100 ORDER BY n_dead_tup DESC LIMIT 8"


async def j(repeat: int, minutes: float = MINUTES) -> list[Figure]:
    """A and D at the start and after a transaction was held open elsewhere, with runs all the time; it is still open then.

    What an event costs in the first and in the last minute of it is told too: that does not depend on who else uses the machine.
    """
    async with bench(ONE + QUEUED, 1 + DATASETS) as ready:
        before = await _measured(ready, repeat)
        async with _held(ready):
            cpu = await _at_work(ready, minutes * 60)
            after = await _measured(ready, repeat)
            await _tell_dead(ready)
    held = f"after {minutes:g} minutes with a transaction held open"
    return [*_figures("at the start", *before), *_figures(held, *after), *_costs(cpu), *_drifts(before, after)]


Measured = tuple[list[list[float]], list[float]]
"""Latencies by rounds, and rates."""


async def _measured(ready: Bench, repeat: int) -> Measured:
    async with Publisher(ready.kafka.bootstrap, source="bench") as publisher:
        rounds = [[await latency_ms(ready, publisher) for _ in range(SAMPLES)] for _ in range(repeat + 1)][1:]
    return rounds, await repeated(repeat, lambda: ingest_per_s(ready))


@asynccontextmanager
async def _held(ready: Bench) -> AsyncIterator[None]:
    """A transaction that has read and written, and does not end."""
    other = await asyncpg.connect(ready.postgres.dsn)
    transaction = other.transaction(isolation="repeatable_read")
    await transaction.start()
    await other.fetchval("SELECT pg_current_xact_id()")
    try:
        yield
    finally:
        await transaction.rollback()
        await other.close()


async def _at_work(ready: Bench, seconds: float) -> tuple[float, float]:
    """The time of processors that an event took in the first minute and in the last, in ms."""
    minute = min(60.0, seconds / 2)
    first = await _cpu_ms(ready, minute)
    if seconds > 2 * minute:
        await _cpu_ms(ready, seconds - 2 * minute)
    return first, await _cpu_ms(ready, minute)


async def _cpu_ms(ready: Bench, seconds: float) -> float:
    began_at, before, sent = perf_counter(), _cpu_s(ready), 0
    async with Publisher(ready.kafka.bootstrap, source="bench") as publisher:
        while perf_counter() < began_at + seconds:
            await publisher.dataset_updated("bench://one")
            await anyio.sleep(1 / LOAD_PER_S)
            sent += 1
    return (_cpu_s(ready) - before) * 1000 / max(sent, 1)


def _cpu_s(ready: Bench) -> float:
    """Of the daemon and of all of Postgres, those of its processes that have ended included."""
    servers = [psutil.Process(server.pid) for server in (ready.postgres, ready.daemon)]
    family = [process.cpu_times() for server in servers for process in (server, *server.children(recursive=True))]
    ended = [server.cpu_times() for server in servers]
    return sum(each.user + each.system for each in family) + sum(each.children_user + each.children_system for each in ended)


async def _tell_dead(ready: Bench) -> None:
    rows = await ready.connection.fetch(DEAD)
    sys.stderr.write("J: dead rows: " + ", ".join(f"{name} {dead:,}" for name, dead in rows) + "\n")


def _figures(when: str, rounds: Sequence[Sequence[float]], rates: list[float]) -> list[Figure]:
    latency = percentiles("J", f"A {when}", rounds, ((50, peer.NONE, None), (99, peer.NONE, None)))
    return [*latency, rate("J", f"D {when}", "events/s", rates, peer.NONE, None)]


def _costs(cpu: tuple[float, float]) -> list[Figure]:
    return [
        duration("J", f"what a run costs daemon and Postgres, {when}", [ms / 1000], peer.NONE, None)
        for when, ms in zip(("first minute", "last minute"), cpu, strict=True)
    ]


def _drifts(before: Measured, after: Measured) -> list[Figure]:
    latency = [median(median(samples) for samples in rounds) for rounds, _ in (before, after)]
    rates = [median(rates) for _, rates in (before, after)]
    drifts = {"A, p50": latency[1] / latency[0] - 1, "D": rates[0] / rates[1] - 1}
    return [
        Figure(
            scenario="J",
            what=f"{what}: so much worse",
            unit="%",
            value=drift * 100,
            low=drift * 100,
            high=drift * 100,
            peer=peer.NONE,
            target=10,
            lower_is_better=True,
        )
        for what, drift in drifts.items()
    ]
