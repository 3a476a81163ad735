"""What happens to three brokers in a storm: one thing after the other, each until all copies are in sync again."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from random import Random

import anyio

from tests.quorum import NODES, Quorum

PAUSE_S = (0.5, 2.0)
AWAY_S = (4.0, 6.0)
FROZEN_S = (5.0, 12.0)

Note = Callable[[str], None]


class BrokerNemesis:
    """`moves` counts the partitions that had another leader than at the look before."""

    def __init__(self, random: Random, quorum: Quorum, prefix: str, note: Note) -> None:
        self.moves = 0
        self._random = random
        self._quorum = quorum
        self._prefix = prefix
        self._note = note
        self._leaders: Mapping[tuple[str, int], int] = {}

    async def rage(self, strikes: Sequence[str]) -> None:
        """Return when everything has happened and all brokers are up again."""
        for name in strikes:
            await anyio.sleep(self._random.uniform(*PAUSE_S))
            await self._count_moves()
            self._note(name)
            await STRIKES[name](self)
            await self._quorum.until_in_sync()
            await self._count_moves()
            self._note("all copies are in sync")

    async def _count_moves(self) -> None:
        leaders = await self._quorum.leaders(self._prefix)
        self.moves += sum(self._leaders.get(partition, leader) != leader for partition, leader in leaders.items())
        self._leaders = leaders

    def _shuffled(self) -> list[int]:
        return self._random.sample(NODES, len(NODES))

    async def roll(self) -> None:
        """As an upgrade does it. Every partition loses its leader once, and soon has the first one again."""
        for node in self._shuffled():
            self._note(f"stop broker {node}")
            await self._quorum.stop([node])
            await self._count_moves()
            await self._quorum.start([node])
            await self._quorum.until_in_sync()

    async def kill_each(self) -> None:
        for node in self._shuffled():
            await self._kill([node])
            await self._quorum.until_in_sync()

    async def kill_leader(self) -> None:
        """Of the most partitions."""
        led = list((await self._quorum.leaders(self._prefix)).values())
        await self._kill([max(NODES, key=led.count)])

    async def keep_two_away(self) -> None:
        """No majority, and fewer copies than a record needs: nothing is taken or led anew until one of them is back."""
        await self._kill(self._shuffled()[:2], self._random.uniform(*AWAY_S))

    async def kill_all(self) -> None:
        await self._kill(list(NODES))

    async def freeze(self) -> None:
        node, seconds = self._random.choice(NODES), self._random.uniform(*FROZEN_S)
        self._note(f"freeze broker {node} for {seconds:.1f} s")
        self._quorum.freeze(node)
        await anyio.sleep(seconds)
        self._quorum.thaw(node)

    async def _kill(self, nodes: Sequence[int], away_s: float | None = None) -> None:
        self._note(f"kill broker {', '.join(map(str, nodes))}")
        await self._quorum.kill(nodes)
        await anyio.sleep(self._random.uniform(*PAUSE_S) if away_s is None else away_s)
        await self._quorum.start(nodes)


STRIKES: Mapping[str, Callable[[BrokerNemesis], Awaitable[None]]] = {
    "restart all in good order": BrokerNemesis.roll,
    "kill one after the other": BrokerNemesis.kill_each,
    "kill the leader of the most": BrokerNemesis.kill_leader,
    "keep two away": BrokerNemesis.keep_two_away,
    "kill all at once": BrokerNemesis.kill_all,
    "freeze one": BrokerNemesis.freeze,
}
