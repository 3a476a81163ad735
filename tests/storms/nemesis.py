"""Kills, freezes and cuts of a storm, drawn from a seed: two storms of one seed are alike, but never the same."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from random import Random

import anyio
import asyncpg
import msgspec

from tests.quorum import Quorum
from tests.storms.links import Link, PostgresLink
from tests.storms.processes import Daemon
from tidegate.daemon.standalone.kafka import Kafka
from tidegate.daemon.standalone.postgres import Postgres

TRIES = 3
"""How often a daemon is to die at a point, until one has."""

WORTH_S = 10.0
"""How long a freeze waits for a daemon that is worth it."""

TERMINATE = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE application_name LIKE 'tidegate%' AND random() < 0.5
"""
"""A standby that is rebuilt keeps its connections."""


class Misery(msgspec.Struct, frozen=True, kw_only=True):
    """How much of what. Times are in seconds; `die_at` are the points at which daemons end themselves, one process each.

    `stopped` are the daemons that are frozen; empty: any.
    """

    kills: int = 0
    terms: int = 0
    stops: int = 0
    stopped: Sequence[str] = ()
    stop_s: tuple[float, float] = (3.5, 5.5)
    die_at: Sequence[str] = ()
    every_s: tuple[float, float] = (1.5, 4.0)
    broker_kills: int = 0
    postgres_crashes: int = 0
    cut_bursts: int = 0
    cut_share: float = 0.4
    cut_s: tuple[float, float] = (0.5, 1.5)
    terminations: int = 0
    partitions: int = 0
    partition_s: tuple[float, float] = (1.0, 8.0)
    delays: int = 0
    delay_s: tuple[float, float] = (0.01, 0.15)
    delayed_s: tuple[float, float] = (1.0, 3.0)
    within_s: float = 60.0
    """All but the ends of daemons is spread over this time."""

    @property
    def parts(self) -> bool:
        """Whether daemons and servers are kept from each other."""
        return self.partitions + self.delays > 0


class Nemesis:
    """`diary` is what it did, and when, counted from the beginning. It prefers to freeze a daemon that is `worth_freezing`."""

    def __init__(
        self,
        random: Random,
        daemons: Sequence[Daemon],
        kafka: Kafka | Quorum,
        postgres: Postgres,
        worth_freezing: Callable[[Daemon], bool] = lambda _: True,
    ) -> None:
        self.diary: list[tuple[float, str]] = []
        self._random = random
        self._daemons = daemons
        self._kafka = kafka
        self._postgres = postgres
        self._worth_freezing = worth_freezing
        links = [link for daemon in daemons for link in daemon.links]
        self._to_part, self._to_delay = _in_turn(random, links), _in_turn(random, links)
        self._began_at = anyio.current_time()

    async def rage(self, misery: Misery) -> None:
        """Return when everything has happened and the servers are up again."""
        lanes = [
            self._end_daemons(misery),
            self._spread(misery, misery.stops, partial(self._freeze, misery)),
            self._spread(misery, misery.broker_kills, self._kill_broker),
            self._spread(misery, misery.postgres_crashes, self._crash_postgres),
            self._spread(misery, misery.cut_bursts, partial(self._cut, misery)),
            self._spread(misery, misery.terminations, self._terminate_backends),
            self._spread(misery, misery.partitions, partial(self._part, misery)),
            self._spread(misery, misery.delays, partial(self._delay, misery)),
        ]
        async with anyio.create_task_group() as tg:
            for lane in lanes:
                tg.start_soon(partial(_wait, lane))

    async def _end_daemons(self, misery: Misery) -> None:
        """The points come in the first half, which leaves time to repeat the missed ones."""
        others = ["kill"] * misery.kills + ["terminate"] * misery.terms
        self._random.shuffle(others)
        ends = [*misery.die_at, *others[len(misery.die_at) :]]
        self._random.shuffle(ends)
        ends += others[: len(misery.die_at)]
        again = Counter(dict.fromkeys(misery.die_at, TRIES - 1))
        while ends:
            await anyio.sleep(self._random.uniform(*misery.every_s))
            missed = Counter(self._missed_points()) & again
            again -= missed
            ends[:0] = missed.elements()
            end, daemon = ends.pop(0), await self._victim()
            if end in ("kill", "terminate"):
                self.note(f"{end} {daemon.name}")
                getattr(daemon, end)()
            else:
                daemon.die_at = end
                self.note(f"kill {daemon.name}, and the next one at {end}")
                daemon.kill()

    def _missed_points(self) -> Iterator[str]:
        """Since this was asked last."""
        for daemon in self._daemons:
            yield from daemon.missed
            daemon.missed.clear()

    async def _spread(self, misery: Misery, count: int, strike: Callable[[], Awaitable[None]]) -> None:
        begin = anyio.current_time()
        for number in range(count):
            await anyio.sleep_until(begin + misery.within_s * (number + self._random.uniform(0.2, 0.8)) / count)
            await strike()

    async def _freeze(self, misery: Misery) -> None:
        daemon = await self._to_freeze(misery.stopped)
        seconds = self._random.uniform(*misery.stop_s)
        worth = "" if self._worth_freezing(daemon) else ", though nothing there is worth it"
        self.note(f"freeze {daemon.name} for {seconds:.1f} s{worth}")
        await daemon.freeze(seconds)

    async def _to_freeze(self, among: Sequence[str]) -> Daemon:
        """Any daemon when none was worth it for `WORTH_S`."""
        until = anyio.current_time() + WORTH_S
        while not self._worth_freezing(daemon := await self._victim(among)) and anyio.current_time() < until:
            await anyio.sleep(0.05)
        return daemon

    async def _kill_broker(self) -> None:
        self.note("kill the broker")
        await self._kafka.kill()
        await anyio.sleep(self._random.uniform(0, 2))
        await self._kafka.start()
        self.note("the broker is back")

    async def _crash_postgres(self) -> None:
        self.note("crash Postgres")
        await self._postgres.crash()
        await anyio.sleep(self._random.uniform(0, 1))
        await self._postgres.start()
        self.note("Postgres is back")

    async def _cut(self, misery: Misery) -> None:
        self.note("cut commits")
        links = [link for daemon in self._daemons for link in daemon.links if isinstance(link, PostgresLink)]
        for link in links:
            link.cut_share = misery.cut_share
        await anyio.sleep(self._random.uniform(*misery.cut_s))
        for link in links:
            link.cut_share = 0.0

    async def _terminate_backends(self) -> None:
        """Half of the connections of the product to Postgres."""
        self.note("end half of all connections")
        with suppress(OSError, asyncpg.PostgresError):
            db = await asyncpg.connect(self._postgres.dsn)
            try:
                await db.execute(TERMINATE)
            finally:
                await db.close()

    async def _part(self, misery: Misery) -> None:
        link, seconds = next(self._to_part), self._random.uniform(*misery.partition_s)
        self.note(f"{link.name} stands still for {seconds:.1f} s")
        link.stand_still()
        await anyio.sleep(seconds)
        link.flow()

    async def _delay(self, misery: Misery) -> None:
        link, link_delay_s = next(self._to_delay), self._random.uniform(*misery.delay_s)
        seconds = self._random.uniform(*misery.delayed_s)
        self.note(f"{link.name} is slow by {link_delay_s * 1000:.0f} ms for {seconds:.1f} s")
        link.delay_s = link_delay_s
        await anyio.sleep(seconds)
        link.delay_s = 0.0

    async def _victim(self, among: Sequence[str] = ()) -> Daemon:
        """A running daemon, neither frozen (it must wake up again) nor about to end itself."""
        daemons = [daemon for daemon in self._daemons if not among or daemon.name in among]
        while not (candidates := [daemon for daemon in daemons if daemon.up and not (daemon.frozen or daemon.doomed)]):
            await anyio.sleep(0.05)
        return self._random.choice(candidates)

    def note(self, what: str) -> None:
        self.diary.append((anyio.current_time() - self._began_at, what))


def _in_turn(random: Random, links: Sequence[Link]) -> Iterator[Link]:
    """Each as often as the others, in an order that changes."""
    while links:
        yield from random.sample(links, len(links))


async def _wait(lane: Awaitable[None]) -> None:
    await lane
