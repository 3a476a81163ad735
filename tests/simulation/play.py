"""Play schedules, one after the other, on one server."""

import gc
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Self

import msgspec
import structlog

from tests.simulation.invariants import AT_COMMIT, AT_REST
from tests.simulation.loop import VirtualLoop
from tests.simulation.scheduler import CircleError, Done, Scheduler
from tests.simulation.server import Server
from tests.simulation.step import Place
from tests.simulation.world import World

CIRCLE = "sessions_do_not_deadlock"
COLLECT_EVERY = 50
"""The garbage collector has its turn between schedules: inside it would look at everything a hundred times."""


class Played(msgspec.Struct, frozen=True):
    """What came of a schedule. `broken` are sentences by invariant."""

    seed: int
    scheduler: Scheduler
    broken: Mapping[str, Sequence[str]]

    @property
    def story(self) -> Sequence[str]:
        return self.scheduler.story

    @property
    def sentences(self) -> list[str]:
        return [f"    {name.replace('_', ' ')}: {each}" for name, found in self.broken.items() for each in found]


class Player:
    """`reached` counts how often something rare was."""

    def __init__(self, loop: VirtualLoop, dsn: str, groups: Collection[str] = ()) -> None:
        self.loop = loop
        self.groups = groups
        self.server = Server(loop, dsn)
        self.reached: Counter[str] = Counter()
        self._played = 0
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        gc.collect()
        gc.freeze()
        gc.disable()
        await self._stack.enter_async_context(self.server)
        self.memory = await self.server.memory()
        structlog.configure(processors=[self._count])
        return self

    async def __aexit__(self, *_: object) -> None:
        gc.enable()
        structlog.reset_defaults()
        await self._stack.aclose()

    def _count(self, _logger: Any, _method: str, event: structlog.typing.EventDict) -> Any:
        self.reached[str(event["event"])] += 1
        raise structlog.DropEvent

    async def play(self, seed: int) -> Played:
        self._played += 1
        if self._played % COLLECT_EVERY == 0:
            gc.collect()
        world = World(self.loop, self.server, self.memory, seed, self.groups)
        broken: dict[str, list[str]] = defaultdict(list)
        world.scheduler.on_commit = partial(_look, world, broken)
        try:
            await world.play()
        except CircleError as error:
            broken[CIRCLE].append(str(error))
            await world.end()
        else:
            for check in AT_REST:
                if found := sorted(await check(world)):
                    broken[check.__name__] += found
        self.reached.update(world.reached)
        return Played(seed, world.scheduler, dict(broken))


async def _look(world: World, broken: dict[str, list[str]], place: Place, done: Done) -> None:
    for check in AT_COMMIT:
        for sentence in await check(world, done):
            broken[check.__name__].append(f"{sentence}, by {place}")
            world.scheduler.tell(f"BROKEN {sentence}")
