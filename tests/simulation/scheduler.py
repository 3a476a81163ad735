"""Picks the next step. Between two decisions nothing runs: every coroutine waits for a decision, for a lock, or for time."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Any

import asyncpg

from tests.simulation.loop import VirtualLoop
from tests.simulation.server import Raw, Server, undone
from tests.simulation.session import Session, Statement
from tests.simulation.statements import changed
from tests.simulation.step import Place, Step

HELD_S = 5.0
"""So long a statement waits for a lock, and a transaction for its next statement, at most: `SERVER_SETTINGS` say so."""

LIVES = {"job"}
"""The table that tells which daemons live. No trigger and no foreign key goes from it to another."""

Done = Sequence[tuple[str, tuple[Any, ...]]]
"""The statements of a transaction, with what was given to them."""


class CircleError(Exception):
    """Transactions wait for each other."""


class Scheduler:
    """`parked` are the steps that may be taken, `waiting` the statements that wait for locks; `before` is who did what last.

    `writes` counts the commits that may have changed more than who lives. `released`: a transaction for which a statement waits
    has ended since it was last asked who still waits.
    """

    def __init__(self, loop: VirtualLoop, server: Server, chance: Random) -> None:
        self.loop = loop
        self.server = server
        self.chance = chance
        self.parked: list[Step] = []
        self.waiting: list[Statement] = []
        self._story: list[list[Any]] = []
        self.steps = 0
        self.writes = 0
        self.released = False
        self.reached: Counter[str] = Counter()
        self.on_commit: Callable[[Place, Done], Awaitable[None]] | None = None
        self._commits: list[tuple[Place, Done]] = []
        self._abandoned: list[Session] = []
        self._last: Place | None = None
        self.before: dict[Place, str] = {}

    def tell(self, what: str) -> None:
        """A line of the story."""
        self._story.append([self.loop.time(), what])

    @property
    def story(self) -> list[str]:
        """Most are never read: a line becomes text when it is."""
        return [f"{at:10.6f}  {''.join(map(str, parts))}" for at, *parts in self._story]

    async def wait(self, step: Step) -> Any:
        """To be called by daemons."""
        if step.host.dead:
            raise asyncpg.InterfaceError("the daemon is dead")
        self.parked.append(step)
        try:
            return await step.answer
        finally:
            if step in self.parked:
                self.parked.remove(step)

    def committed(self, place: Place, done: Done) -> None:
        self.writes += any(changed(sql) - LIVES for sql, _ in done)
        self._commits.append((place, done))

    def let_go(self, raw: Raw) -> None:
        """A transaction has ended on this connection."""
        self.released = self.released or any(
            raw.pid in s.session.waiting.behind for s in self.waiting if s.session.waiting is not None
        )

    def abandon(self, session: Session) -> None:
        self._abandoned.append(session)

    def choose(self, among: Sequence[Step], stickiness: float) -> Step:
        """The same one goes on for a while, where the plan is so."""
        if self._last is not None and self.chance.random() < stickiness:
            for near in ([s for s in among if s.place == self._last], [s for s in among if s.place.daemon == self._last.daemon]):
                if near:
                    return self.chance.choice(near)
        return self.chance.choice(among)

    async def take(self, step: Step, trouble: str = "") -> None:
        """One step, and all that follows from it up to the next decisions."""
        self.steps += 1
        self.parked.remove(step)
        self._last = step.place
        self.before[step.place] = step.what
        line = [self.loop.time(), step.place, ": ", step.what, f" ({trouble})" if trouble else ""]
        self._story.append(line)
        if not await step.take(trouble):
            assert isinstance(step, Statement)
            self.waiting.append(step)
            self.reached["waited for a lock"] += 1
            line.append(" … waits for a lock")
            await self._look_for_circles(step)
        elif (error := step.answer.exception()) is not None:
            line.append(f" → {type(error).__name__}")
        await self.settle()

    async def settle(self) -> None:
        """Until nothing moves."""
        while True:
            await self.loop.idle()
            while self._commits and self.on_commit is not None:
                await self.on_commit(*self._commits.pop(0))
            if self._abandoned:
                await self._undo(self._abandoned.pop(0))
            elif not (self.waiting and self.released and await self._go_on()):
                return

    async def _go_on(self) -> bool:
        """Let one of those go on that have got their lock; whether there was any."""
        granted = await self.server.granted([s.session.waiting for s in self.waiting if s.session.waiting is not None])
        free = [s for s in self.waiting if s.session.waiting is not None and s.session.waiting.pid in granted]
        if not free:
            self.released = False
            return False
        statement = self.chance.choice(free)
        waiting = statement.session.waiting
        assert waiting is not None
        self.waiting.remove(statement)
        self.tell(f"{statement.place}: {statement.what} goes on")
        if not statement.heard(await self.server.go_on(waiting)):
            self.waiting.append(statement)
        return True

    async def _undo(self, session: Session) -> None:
        """A connection ended: its transaction too, and what was just to be asked is never answered."""
        raw, session.raw = session.raw, None
        for step in [s for s in (*self.parked, *self.waiting) if isinstance(s, Statement) and s.session is session]:
            step.fail(session.lost or asyncpg.InterfaceError("connection was released"))
        if session.waiting is not None:
            self.waiting = [s for s in self.waiting if s.session is not session]
            await self._give_up(session)
        if raw is not None:
            if session.in_transaction:
                self.let_go(raw)
                await undone(raw)
            session.in_transaction = False
            self.server.give_back(raw)

    async def pass_time(self, seconds: float) -> None:
        """The server ends a session that blocks others for too long, and a session that waits too long gives up."""
        self.loop.move_to(self.loop.time() + seconds)
        self.tell("time passes")
        await self.loop.idle()
        await self._expire()
        await self.settle()

    async def _expire(self) -> None:
        late = self.loop.time() - HELD_S
        held = [s for s in self.parked if isinstance(s, Statement) and s.session.in_transaction and s.session.rested_at <= late]
        for step in held:
            self.tell(f"{step.place}: held others up for too long")
            step.session.terminate()
        for statement in [s for s in self.waiting if s.session.rested_at <= late]:
            self.tell(f"{statement.place}: {statement.what} waited for too long")
            self.waiting.remove(statement)
            await self._give_up(statement.session)
            statement.fail(asyncpg.LockNotAvailableError("canceling statement due to lock timeout"))

    async def _give_up(self, session: Session) -> None:
        """Others may have waited behind it."""
        assert session.waiting is not None
        self.let_go(session.waiting.raw)
        await self.server.give_up(session.waiting)
        session.waiting = None

    def silence(self, daemon: int) -> None:
        """A daemon is dead: none of its steps will be taken."""
        error = asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation")
        mine = [step for step in (*self.parked, *self.waiting) if step.place.daemon == daemon]
        self.parked = [step for step in self.parked if step not in mine]
        for step in mine:
            if isinstance(step, Statement):
                step.session.gone(error)
            step.fail(error)

    async def _look_for_circles(self, last: Statement) -> None:
        """The last one has just been stopped; others may be behind fewer than when they were."""
        waiting = {s.session.waiting.pid: s.session.waiting for s in self.waiting if s.session.waiting is not None}
        assert last.session.waiting is not None
        mine, seen = last.session.waiting.pid, set[int]()
        ahead = [*last.session.waiting.behind]
        while ahead:
            pid = ahead.pop()
            if pid == mine:
                raise CircleError("; ".join(f"{s.place}: {s.what}" for s in self.waiting))
            if pid in waiting and pid not in seen:
                seen.add(pid)
                ahead += await self.server.blockers(waiting[pid])
