"""What happens to the processes of a storm, by a seed: two storms of one seed are alike, though never the same."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from random import Random

import anyio
import msgspec

from tests.storms.processes import Daemon
from tests.storms.proxy import Proxy
from tidegate.daemon.standalone.kafka import Kafka
from tidegate.daemon.standalone.postgres import Postgres


class Misery(msgspec.Struct, frozen=True, kw_only=True):
    """How much of what. Times are in seconds; `die_at` are the points at which daemons end themselves, one process each."""

    kills: int = 0
    terms: int = 0
    stops: int = 0
    stop_s: tuple[float, float] = (3.5, 5.5)
    die_at: Sequence[str] = ()
    every_s: tuple[float, float] = (1.5, 4.0)
    broker_kills: int = 0
    postgres_crashes: int = 0
    cut_bursts: int = 0
    cut_share: float = 0.4
    cut_s: tuple[float, float] = (0.5, 1.5)
    within_s: float = 60.0
    """The stops, the crashes of servers and the cuts are spread over this time."""


class Nemesis:
    """`diary` is what it did, and when, counted from the beginning."""

    def __init__(self, random: Random, daemons: Sequence[Daemon], kafka: Kafka, postgres: Postgres, proxy: Proxy) -> None:
        self.diary: list[tuple[float, str]] = []
        self._random = random
        self._daemons = daemons
        self._kafka = kafka
        self._postgres = postgres
        self._proxy = proxy
        self._began_at = anyio.current_time()

    async def rage(self, misery: Misery) -> None:
        """Return when everything has happened and the servers are up again."""
        lanes = [
            self._end_daemons(misery),
            self._spread(misery, misery.stops, partial(self._freeze, misery)),
            self._spread(misery, misery.broker_kills, self._kill_broker),
            self._spread(misery, misery.postgres_crashes, self._crash_postgres),
            self._spread(misery, misery.cut_bursts, partial(self._cut, misery)),
        ]
        async with anyio.create_task_group() as tg:
            for lane in lanes:
                tg.start_soon(partial(_wait, lane))

    async def _end_daemons(self, misery: Misery) -> None:
        ends = ["kill"] * misery.kills + ["terminate"] * misery.terms + list(misery.die_at)
        self._random.shuffle(ends)
        for end in ends:
            await anyio.sleep(self._random.uniform(*misery.every_s))
            daemon = await self._victim()
            if end in ("kill", "terminate"):
                self.note(f"{end} {daemon.name}")
                getattr(daemon, end)()
            else:
                daemon.die_at = end
                self.note(f"kill {daemon.name}, and the next one at {end}")
                daemon.kill()

    async def _spread(self, misery: Misery, count: int, strike: Callable[[], Awaitable[None]]) -> None:
        begin = anyio.current_time()
        for number in range(count):
            await anyio.sleep_until(begin + misery.within_s * (number + self._random.uniform(0.2, 0.8)) / count)
            await strike()

    async def _freeze(self, misery: Misery) -> None:
        daemon = await self._victim()
        seconds = self._random.uniform(*misery.stop_s)
        self.note(f"freeze {daemon.name} for {seconds:.1f} s")
        await daemon.freeze(seconds)

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
        self._proxy.cut_share = misery.cut_share
        await anyio.sleep(self._random.uniform(*misery.cut_s))
        self._proxy.cut_share = 0.0

    async def _victim(self) -> Daemon:
        """One that runs; nobody ends a frozen one, which is to wake up again, nor one that is about to end itself."""
        while not (candidates := [daemon for daemon in self._daemons if daemon.up and not (daemon.frozen or daemon.doomed)]):
            await anyio.sleep(0.05)
        return self._random.choice(candidates)

    def note(self, what: str) -> None:
        self.diary.append((anyio.current_time() - self._began_at, what))


async def _wait(lane: Awaitable[None]) -> None:
    await lane
