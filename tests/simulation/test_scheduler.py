"""Steps: what is known of a statement before anything else happens."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import asyncpg
import pytest

from tests.simulation.loop import VirtualLoop
from tests.simulation.scheduler import CircleError, Scheduler
from tests.simulation.server import START, Server
from tests.simulation.session import COMMIT, CUT, UNANSWERED, Session

SLOTS = "SELECT slots FROM pool WHERE name = 'narrow'"
MORE = "UPDATE pool SET slots = slots + 1 WHERE name = $1"


class Stub:
    """A daemon that does what the test does."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.dead = False


class Stage:
    """Two sessions, and who decides."""

    def __init__(self, loop: VirtualLoop, server: Server) -> None:
        self.loop = loop
        self.server = server
        self.scheduler = Scheduler(loop, server, Random(1))
        self.sessions = [Session(Stub(number), self.scheduler) for number in range(3)]

    async def say(self, number: int, sql: str, *args: Any, trouble: str = "") -> "asyncio.Task[Any]":
        """A statement of a session, taken at once. Done when it has an answer."""
        asking = self.loop.create_task(self.sessions[number].execute(sql, *args))
        await self.loop.idle()
        await self.scheduler.take(self.scheduler.parked[-1], trouble)
        return asking

    async def slots(self) -> int:
        return int((await self.server.ask(SLOTS))[0][0])

    @asynccontextmanager
    async def at_the_end_all_are_gone(self) -> AsyncIterator[None]:
        try:
            yield
        finally:
            for session in self.sessions:
                session.gone(asyncpg.InterfaceError("the end"))
            await self.scheduler.settle()


Play = Callable[[Callable[[Stage], Awaitable[None]]], None]


@pytest.fixture
def play(simulated: str) -> Iterator[Play]:
    loop = VirtualLoop()

    def run(scene: Callable[[Stage], Awaitable[None]]) -> None:
        async def main() -> None:
            async with Server(loop, simulated) as server:
                await server.begin([2, 2])
                stage = Stage(loop, server)
                async with stage.at_the_end_all_are_gone():
                    await scene(stage)

        loop.run_until_complete(main())

    yield run
    loop.close()


def test_a_statement_that_waits_for_a_lock_lets_others_go_on(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        for number in (0, 1):
            stage.sessions[number].begin()
        await stage.say(0, MORE, "narrow")
        waiting = await stage.say(1, MORE, "narrow")
        assert not waiting.done()
        await stage.say(0, COMMIT)
        assert waiting.done()
        await stage.say(1, COMMIT)
        assert await stage.slots() == 4

    play(scene)


def test_of_two_that_wait_one_is_chosen(play: Play) -> None:
    """Also where both could go on."""

    async def scene(stage: Stage) -> None:
        for number in (0, 1, 2):
            stage.sessions[number].begin()
        await stage.say(0, "SELECT FROM pool ORDER BY name FOR UPDATE")
        waiting = [await stage.say(1, MORE, "narrow"), await stage.say(2, MORE, "default_pool")]
        assert [each.done() for each in waiting] == [False, False]
        await stage.say(0, COMMIT)
        assert [each.done() for each in waiting] == [True, True]
        assert [line.partition("goes")[1] for line in stage.scheduler.story[-2:]] == ["goes", "goes"]

    play(scene)


def test_what_was_not_committed_goes_with_its_connection(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        stage.sessions[0].begin()
        await stage.say(0, MORE, "narrow")
        waiting = await stage.say(1, MORE, "narrow")
        committing = await stage.say(0, COMMIT, trouble=CUT)
        assert isinstance(committing.exception(), asyncpg.ConnectionDoesNotExistError)
        assert waiting.done()
        assert await stage.slots() == 3

    play(scene)


def test_a_commit_without_an_answer_stays(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        stage.sessions[0].begin()
        await stage.say(0, MORE, "narrow")
        committing = await stage.say(0, COMMIT, trouble=UNANSWERED)
        assert isinstance(committing.exception(), asyncpg.ConnectionDoesNotExistError)
        assert await stage.slots() == 3

    play(scene)


def test_a_deadlock_is_found(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        for number, name in ((0, "narrow"), (1, "default_pool")):
            stage.sessions[number].begin()
            await stage.say(number, MORE, name)
        waiting = await stage.say(0, MORE, "default_pool")
        with pytest.raises(CircleError):
            await stage.say(1, MORE, "narrow")
        assert not waiting.done()
        stage.loop.call_soon(waiting.cancel)

    play(scene)


def test_no_session_blocks_others_for_longer_than_the_server_allows(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        stage.sessions[0].begin()
        await stage.say(0, MORE, "narrow")
        going_on = stage.loop.create_task(stage.sessions[0].execute(COMMIT))
        waiting = await stage.say(1, MORE, "narrow")
        await stage.scheduler.pass_time(4.9)
        assert (going_on.done(), waiting.done()) == (False, False)
        await stage.scheduler.pass_time(0.2)
        assert isinstance(going_on.exception(), asyncpg.ConnectionDoesNotExistError)
        await stage.scheduler.settle()
        assert waiting.done()

    play(scene)


def test_postgres_writes_no_log_of_what_a_schedule_does(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        logged = (
            "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND relpersistence = 'p'"
        )
        assert await stage.server.ask(logged) == []

    play(scene)


def test_postgres_goes_by_the_time_of_the_loop(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        stage.sessions[0].begin()
        await stage.say(1, "INSERT INTO audit_log (who, what, object) VALUES ('who', 'what', 'before')")
        await stage.scheduler.pass_time(3.0)
        await stage.say(0, "INSERT INTO audit_log (who, what, object) VALUES ('who', 'what', 'begun before')")
        await stage.say(1, "INSERT INTO audit_log (who, what, object) VALUES ('who', 'what', 'after')")
        await stage.say(0, COMMIT)
        rows = await stage.server.ask("SELECT object, at FROM audit_log WHERE who = 'who'")
        assert {row[0]: (row[1] - START).total_seconds() for row in rows} == {"before": 0, "begun before": 0, "after": 3}

    play(scene)
