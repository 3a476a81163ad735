"""A step: something that a daemon asks of a server. It is taken when the scheduler says so, and not before."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple, Protocol

DUTY: ContextVar[str] = ContextVar("DUTY", default="")
"""The duty that a coroutine belongs to."""


class Place(NamedTuple):
    """Who takes a step."""

    daemon: int
    duty: str

    def __str__(self) -> str:
        return f"d{self.daemon} {self.duty}"


class Host(Protocol):
    """A daemon as steps see it."""

    number: int
    dead: bool


class Step(ABC):
    """`answer` is what the daemon waits for. `troubles` are the ways in which it may go wrong, by name.

    By the first of them it does not get to its server.
    """

    server = ""
    """Whom it is asked of."""
    troubles: Sequence[str] = ()
    binding = False
    """Whether others may have to wait until the daemon goes on."""

    def __init__(self, host: Host, what: str) -> None:
        self.host = host
        self.place = Place(host.number, DUTY.get())
        self.what = what
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    @abstractmethod
    async def take(self, trouble: str) -> bool:
        """Do it; whether it has come to its end: a statement may have to wait."""

    def succeed(self, result: Any) -> None:
        if not self.answer.done():
            self.answer.set_result(result)

    def fail(self, error: BaseException) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


class Call(Step):
    """A call to a simulated server. `act` gets the trouble."""

    def __init__(self, host: Host, server: str, what: str, act: Callable[[str], Any], troubles: Sequence[str]) -> None:
        super().__init__(host, what)
        self.server = server
        self._act = act
        self.troubles = troubles

    async def take(self, trouble: str) -> bool:
        try:
            self.succeed(self._act(trouble))
        except Exception as error:  # noqa: BLE001 - the daemon handles it
            self.fail(error)
        return True
