"""An error of Postgres at any call, or of Kafka at any send: tried again, and at last everything is as without the error."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, NamedTuple, cast

import asyncpg
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from hypothesis import strategies as st

from tests import servers
from tests.fuzz.doors.door import Door, Place
from tests.fuzz.small_world import SmallWorld, Topics, attempt_of, end_of, small_world
from tidegate.daemon import outage
from tidegate.daemon.duties import outbox_sinks
from tidegate.events.sink import ProducerRecord
from tidegate.events.source import Partition
from tidegate.schemas.error import FencedError, UnavailableError
from tidegate.schemas.wire.event import Kind

ROUNDS = 12
TRIED_AGAIN = (UnavailableError, FencedError)
TRIES = 8
"""Of one duty: more than there are errors."""

ERRORS: Mapping[str, Callable[[str], Exception]] = {
    "serialization": asyncpg.SerializationError,
    "deadlock": asyncpg.DeadlockDetectedError,
    "rollback": asyncpg.TransactionRollbackError,
    "completion unknown": asyncpg.StatementCompletionUnknownError,
    "lock timeout": asyncpg.LockNotAvailableError,
    "statement timeout": asyncpg.QueryCanceledError,
    "transaction timeout": asyncpg.TransactionTimeoutError,
    "idle in transaction": asyncpg.IdleInTransactionSessionTimeoutError,
    "connection lost": asyncpg.ConnectionDoesNotExistError,
    "connection closed": asyncpg.InterfaceError,
    "reset": ConnectionResetError,
    "no route": OSError,
    "timeout": TimeoutError,
    "confused": asyncpg.InternalClientError,
    "shutdown": asyncpg.AdminShutdownError,
    "crash": asyncpg.CrashShutdownError,
    "starting": asyncpg.CannotConnectNowError,
    "disk full": asyncpg.DiskFullError,
    "out of memory": asyncpg.OutOfMemoryError,
    "too many connections": asyncpg.TooManyConnectionsError,
    "read only": asyncpg.ReadOnlySQLTransactionError,
    "input or output": asyncpg.PostgresIOError,
    "plan changed": asyncpg.InvalidCachedStatementError,
}
LOST = (
    "connection lost",
    "connection closed",
    "reset",
    "no route",
    "timeout",
    "confused",
    "shutdown",
    "crash",
    "completion unknown",
)
"""Errors after which a commit may have happened."""

STATE = """
    SELECT 'run', dag_id, run_type::text, state::text, events::text, unfinished, count(*) FROM dag_run GROUP BY 1, 2, 3, 4, 5, 6
    UNION ALL SELECT 'task', dag_id, task_id, task.state::text, max_tries::text, try_number, count(*)
        FROM task_instance AS task JOIN dag_run AS run ON run.id = task.dag_run_id GROUP BY 1, 2, 3, 4, 5, 6
    UNION ALL SELECT 'attempt', '', '', state::text, desired_state, task_index, count(*) FROM submission GROUP BY 1, 2, 3, 4, 5, 6
    UNION ALL SELECT 'event', '', '', '', '', 0, count(*) FROM dataset_event
    UNION ALL SELECT 'consumed', dag_id, '', '', '', 0, count(*) FROM dagrun_dataset_event GROUP BY 1, 2
    UNION ALL SELECT 'discarded', dag_id, '', reason, '', 0, count(*) FROM discarded_dataset_event GROUP BY 1, 2, 3, 4
    UNION ALL SELECT 'pending', target_dag_id, '', '', '', 0, count(*) FROM dataset_dag_run_queue GROUP BY 1, 2
    UNION ALL SELECT 'held', dag_id, hold_reason, '', '', 0, count(*) FROM dag WHERE held_since IS NOT NULL GROUP BY 1, 2, 3
    UNION ALL SELECT 'letter', topic, message, reason, '', 0, count(*) FROM dead_letter GROUP BY 1, 2, 3, 4
    UNION ALL SELECT 'notice', kind, about, state::text, reason, tries, count(*) FROM notification GROUP BY 1, 2, 3, 4, 5, 6
    UNION ALL SELECT 'outbox', kind, '', '', '', 0, count(*) FROM outbox GROUP BY 1, 2
    ORDER BY 1, 2, 3, 4, 5, 6
"""


class Error(NamedTuple):
    """This error comes once, after a number of calls. `late`: the call has had its effect, and its answer is lost."""

    after: int
    kind: str
    late: bool


ERROR = st.builds(Error, st.integers(0, 250), st.sampled_from(sorted(ERRORS)), st.booleans())
SENDS = st.lists(
    st.sampled_from(["answers", "nothing arrived", "a part arrived", "answer lost", "no connection", "taken over"]), max_size=3
)


class Failing:
    """A connection whose calls fail by the plan."""

    def __init__(self, connection: "asyncpg.Connection[asyncpg.Record]", errors: Sequence[Error]) -> None:
        self._connection = connection
        self._errors = sorted(errors)
        self.calls = 0
        self.failed = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    async def fetch(self, sql: str, *arguments: Any) -> Any:
        return await self._call(self._connection.fetch, sql, *arguments)

    async def execute(self, sql: str, *arguments: Any) -> Any:
        return await self._call(self._connection.execute, sql, *arguments)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """A savepoint, whose begin and end are calls."""
        savepoint = self._connection.transaction()
        await self._call(savepoint.start)
        try:
            yield
        except BaseException:
            await savepoint.rollback()
            raise
        self.calls += 1
        error = self._due()
        if error is not None and not (error.late and error.kind in LOST):
            await savepoint.rollback()
        else:
            await savepoint.commit()
        self._fail(error)

    async def _call(self, call: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
        self.calls += 1
        error = self._due()
        if error is not None and not error.late:
            self._fail(error)
        result = await call(*arguments)
        self._fail(error)
        return result

    def _due(self) -> Error | None:
        return self._errors.pop(0) if self._errors and self._errors[0].after < self.calls else None

    def _fail(self, error: Error | None) -> None:
        if error is not None:
            self.failed += 1
            raise ERRORS[error.kind](f"{error.kind}, as planned")


class UnsteadyTopics(Topics):
    """A sink that fails by the plan, and then delivers."""

    def __init__(self, sends: Sequence[str]) -> None:
        super().__init__()
        self.sends = list(sends)

    async def connect(self) -> None:
        if self.sends[:1] == ["no connection"]:
            self.sends.pop(0)
            raise UnavailableError("Kafka is away, as planned")
        self.is_connected = True

    async def send_available(self, messages: Sequence[ProducerRecord]) -> Sequence[Partition | None]:
        answer = self.sends.pop(0) if messages and self.sends else "answers"
        arrived = {"nothing arrived": 0, "no connection": 0, "a part arrived": len(messages) // 2}.get(answer, len(messages))
        self.messages += messages[:arrived]
        if answer == "taken over":
            self.is_connected = False
            raise FencedError("another producer, as planned")
        if answer != "answers":
            self.is_connected = False
            known = 0 if answer == "answer lost" else arrived
            return [None if number < known else Partition(message.topic, 0) for number, message in enumerate(messages)]
        return [None] * len(messages)


class Trying(SmallWorld):
    """A world whose duties try again after an outage, as those of a daemon do."""

    async def step(self, duty: Callable[..., Awaitable[Any]], *arguments: Any) -> None:
        for _ in range(TRIES):
            if await self._is_done(duty, *arguments):
                return
        raise AssertionError(f"{duty} failed {TRIES} times")

    async def _is_done(self, duty: Callable[..., Awaitable[Any]], *arguments: Any) -> bool:
        try:
            await duty(*arguments)
        except TRIED_AGAIN:
            return False
        except ExceptionGroup as group:
            if group.split(TRIED_AGAIN)[1] is not None:
                raise
            return False
        return True


class Opened(NamedTuple):
    """The world lives in the loop of the portal. `calm` is what becomes of it without an error."""

    portal: BlockingPortal
    world: SmallWorld
    calm: "End"


class End(NamedTuple):
    """The state at rest, and the events that were published, each once."""

    rows: Sequence[tuple[Any, ...]]
    published: Mapping[str, int]


@contextmanager
def world_of(place: Place) -> Iterator[Opened]:
    with pytest.MonkeyPatch.context() as patch:
        for module, name in ((outage, "FIRST_PAUSE_S"), (outage, "LONGEST_PAUSE_S"), (outbox_sinks, "REST_S")):
            patch.setattr(module, name, 0.0)
        with start_blocking_portal() as portal, portal.wrap_async_context_manager(_world(place)) as world:
            yield Opened(portal, world, portal.call(_lived, world, (), ()))


@asynccontextmanager
async def _world(place: Place) -> AsyncIterator[SmallWorld]:
    name = await servers.create_database(place.postgres, place.template)
    async with small_world(servers.dsn_of(place.postgres, name), place.home, Trying) as world:
        yield world
    await servers.drop_database(place.postgres, name)


def enter(given: tuple[Sequence[Error], Sequence[str]], opened: Opened) -> None:
    end = opened.portal.call(_lived, opened.world, *given)
    assert end.rows == opened.calm.rows, sorted({*end.rows} ^ {*opened.calm.rows}, key=str)
    assert end.published == opened.calm.published


async def _lived(world: SmallWorld, errors: Sequence[Error], sends: Sequence[str]) -> End:
    """What becomes of the world."""
    async with world.undone():
        attempts = [await attempt_of(world, task_id) for task_id in ("first", "each")]
        world.pool.connection = cast("asyncpg.Connection[asyncpg.Record]", Failing(world.connection, errors))
        await world.publish_to(UnsteadyTopics(sends))
        await world.take(Kind.TASK_FINISHED, *(end_of(attempt, result=[1]) for attempt in attempts))
        await world.take(Kind.DATASET_UPDATED, {"uri": "s://a"}, {"uri": "s://t/1", "extra": {"n": 3}}, {"uri": 7})
        rows: list[tuple[Any, ...]] = []
        for _ in range(ROUNDS):
            before = rows
            await world.work()
            if (rows := await world.rows(STATE)) == before:
                break
        await world.sweep()
        world.pool.connection = world.connection
        await world.sweep()
        published: dict[str, int] = {}
        for message in {(m.topic, m.key, m.value, tuple(m.headers)) for m in world.sink.messages}:
            published[message[0]] = published.get(message[0], 0) + 1
        return End(await world.rows(STATE), published)


DOOR = Door(
    st.tuples(st.lists(ERROR, max_size=3, unique_by=lambda error: error.after), SENDS),
    enter,
    share=4,
    surroundings=world_of,
    in_suite=3,
    needs_postgres=True,
)
