"""Containment: a fault costs the message or the DAG that it belongs to; everything else goes on.

A DAG whose decision fails, or whose stored version cannot be read, is held until a new version or a user releases it.
A batch that fails is bisected until the message at fault is alone.
"""

from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import asyncpg
import msgspec
import structlog

from tidegate.daemon.engine import Applied, Batch, apply
from tidegate.daemon.fault_log import RepeatedFaults
from tidegate.daemon.outage import Outages
from tidegate.daemon.postgres.database import Database
from tidegate.handlers import tasks_ready
from tidegate.schemas.dag import ImportProblem, ParsedFile
from tidegate.schemas.error import (
    FATAL,
    DagFaultError,
    FencedError,
    InvariantError,
    LockedError,
    TooSlowError,
    UnavailableError,
    described,
)
from tidegate.schemas.message import DatasetUpdateDeferred, EndLockedOut, Message, TasksReady
from tidegate.schemas.queries import holds
from tidegate.schemas.wire.event import DatasetUpdated, TaskFinished

log = structlog.get_logger()

NOT_CONTAINED = (UnavailableError, FencedError, asyncpg.InsufficientPrivilegeError, *FATAL)
"""Errors that have their cause outside the message: it is applied again later."""

MAX_RACES = 5
"""How often in a row another daemon may hold a DAG first, or store another version of it."""

T = TypeVar("T")
R = TypeVar("R")


async def apply_holding(database: Database, batch: Batch) -> Applied:
    """Apply the batch, without the DAGs whose decisions fail twice: they are held. Raises as `engine.apply` does.

    The second decision reads the versions again, because a version may have been mended since this daemon read it. A DAG that got
    another version after the decision had begun is not held: the fault was that of the former one.
    """
    races, read_again, current = 0, set[str](), dict[str, int]()
    while True:
        try:
            return await apply(database, batch)
        except DagFaultError as fault:
            if not fault.reasons.keys() <= read_again:
                read_again |= fault.reasons.keys()
                database.clear_memory()
            else:
                races = 0 if await hold(database, fault, current) else races + 1
            if races > MAX_RACES:
                raise InvariantError(f"a decision reads a held DAG: {fault}") from fault
            current |= await database.run(holds.versions_of, fault.reasons)


async def read_or_hold(database: Database, fault: DagFaultError, read: Callable[[], Awaitable[R]]) -> R | None:
    """The result of `read`, which a fault of a DAG ended. Returns None if it does so again: the DAG is held.

    A DAG that got another version after `read` had begun is not held: the fault was that of the former one.
    """
    current = await database.run(holds.versions_of, fault.reasons)
    try:
        return await read()
    except DagFaultError as again:
        await hold(database, again, current)
        return None


class Containment:
    """Contains the errors of components that are tried until they work, such as the submits of a backend.

    UnavailableError is an outage, until `end_outages`. Any other error is a fault of its component alone: `event` is logged once
    for equal ones.
    """

    def __init__(self, outages: Outages, event: str) -> None:
        self._outages = outages
        self._faults = RepeatedFaults(event)
        self._lost: set[str] = set()

    @property
    def is_out(self) -> bool:
        """Whether a try met an outage that has not ended."""
        return bool(self._lost)

    @contextmanager
    def of(self, component: Hashable, **facts: Any) -> Iterator[None]:
        """One try of the component."""
        try:
            yield
        except LockedError:
            pass  # it is tried again: the server answers, and everything else can go on
        except UnavailableError as error:
            self._lost.add(error.server)
            self._outages.begin(error)
        except FATAL:
            raise
        except Exception as error:  # noqa: BLE001 - any fault of a component concerns this component alone
            self._faults.report(component, error, **facts)
        else:
            self._faults.end(component)

    def end_outages(self) -> None:
        """The servers answer."""
        self._outages.end_all(self._lost)


async def hold(database: Database, fault: DagFaultError, versions: Mapping[str, int]) -> bool:
    """Hold the DAGs at fault that have these versions, with one entry in the log each. Returns whether one was held now."""
    held = await database.run(holds.hold, fault.reasons, versions)
    for dag_id in held:
        hint = f"tidegate dags why-not {dag_id}"
        log.error("dag_held", dag_id=dag_id, reason=fault.reasons[dag_id], hint=hint, exc_info=fault.__cause__)
    return bool(held)


async def apply_without_owner(database: Database, body: Any, error: Exception, act: Callable[[], Awaitable[R]]) -> R | None:
    """The result of `act`, which applies a message that failed. If it fails again, the DAG that the message is about is held.

    A DAG that got another version after `act` had begun is not held: the fault was that of the former one. Returns None if the
    message is about no single DAG. Raises the last error of `act` if that fails without the DAG as well.
    """
    dag_id = await database.run(tasks_ready.first_dag if isinstance(body, TasksReady) else holds.dag_of, body)
    if dag_id is None:
        return None
    for _ in range(1 + MAX_RACES):
        current = await database.run(holds.versions_of, [dag_id])
        try:
            return await act()
        except NOT_CONTAINED:
            raise
        except Exception as again:  # noqa: BLE001 - any fault of the message concerns its DAG alone
            error = again
        fault = DagFaultError({dag_id: f"{type(body).__name__} failed: {described(error)}"})
        fault.__cause__ = error
        await hold(database, fault, current)
    raise error


def substitute(body: Any, error: Exception) -> Any | None:
    """A message that stores what `body` brings, without the decision that failed; None if there is no such message."""
    match body:
        case DatasetUpdated():
            return DatasetUpdateDeferred(update=body)
        case ParsedFile():
            problem = ImportProblem(reason=f"Tidegate cannot take up the file: {described(error)}", line=None)
            members = tuple(msgspec.structs.replace(file, dags=(), problem=file.problem or problem) for file in body.members)
            return msgspec.structs.replace(body, dags=(), problem=problem, members=members)
        case _:
            return None


def deferred(batch: Batch) -> Batch | None:
    """The batch of a single message without its decision, which needs a row that another session holds; None: it cannot wait."""
    match batch.messages:
        case [Message(body=DatasetUpdated() as update) as message]:
            body: Any = DatasetUpdateDeferred(update=update)
        case [Message(body=TaskFinished() as end) as message]:
            body = EndLockedOut(end=end)
        case _:
            return None
    return msgspec.structs.replace(batch, messages=[msgspec.structs.replace(message, body=body)])


async def apply_substitutes(
    database: Database, messages: Sequence[Message[Any]], error: Exception, act: Callable[[Sequence[Message[Any]]], Awaitable[R]]
) -> R | None:
    """As `apply_without_owner`, for messages from a topic; they are applied as their substitutes if all have one."""
    bodies = [substitute(message.body, error) for message in messages]
    replaced = [msgspec.structs.replace(m, body=body or m.body) for m, body in zip(messages, bodies, strict=True)]
    if None in bodies:
        return await apply_without_owner(database, messages[0].body, error, partial(act, replaced))
    return await act(replaced)


Halves = Callable[[Sequence[T]], tuple[Sequence[T], Sequence[T]] | None]


def halves(items: Sequence[T]) -> tuple[Sequence[T], Sequence[T]] | None:
    """The two halves of a sequence; None if it has one item."""
    middle = len(items) // 2
    return (items[:middle], items[middle:]) if middle else None


def message_halves(messages: Sequence[Message[Any]]) -> tuple[Sequence[Message[Any]], Sequence[Message[Any]]] | None:
    """Two halves of messages; of one that admits several tasks, two that admit half as many each."""
    match messages:
        case [Message(body=TasksReady(limit=limit) as ready) as message] if limit > 1:
            first, second = (
                msgspec.structs.replace(message, body=msgspec.structs.replace(ready, limit=part))
                for part in (limit // 2, limit - limit // 2)
            )
            return [first], [second]
        case _:
            return halves(messages)


async def bisect(
    items: Sequence[T],
    act: Callable[[Sequence[T]], Awaitable[R]],
    contain: Callable[[Sequence[T], Exception], Awaitable[R]],
    split: Halves[T] = halves,
) -> list[R]:
    """Act on all items; after a failure on their halves, in order, and at last `contain` the item that fails alone.

    Raises TooSlowError for an item that is too slow alone.
    """
    failures: list[Exception] = []
    try:
        return await _bisect(items, act, contain, split, failures)
    finally:
        if failures:
            log.warning("batch_bisected", splits=len(failures), error=described(failures[0]))


async def _bisect(
    items: Sequence[T],
    act: Callable[[Sequence[T]], Awaitable[R]],
    contain: Callable[[Sequence[T], Exception], Awaitable[R]],
    split: Halves[T],
    failures: list[Exception],
) -> list[R]:
    try:
        return [await act(items)]
    except TooSlowError as error:
        if (parts := split(items)) is None:
            raise
        failures.append(error)
    except NOT_CONTAINED:
        raise
    except Exception as error:  # noqa: BLE001 - any fault of a message concerns this message alone
        if (parts := split(items)) is None:
            return [await contain(items, error)]
        failures.append(error)
    return [result for part in parts for result in await _bisect(part, act, contain, split, failures)]
