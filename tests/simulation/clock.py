"""What a client of Postgres in the simulation goes by: the clock of the loop, and what never changes."""

from datetime import datetime
from typing import Any
from uuid import UUID

from tests.simulation.server import Server
from tidegate.daemon.postgres.database import Database
from tidegate.schemas.queries.memory import Memory


class SimulatedClock:
    """In the place of the server's clock, which all daemons go by."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def now(self, _connection: object) -> datetime:
        return self._server.now

    def told(self, said: datetime) -> datetime:
        return said

    def known(self) -> datetime:
        return self._server.now


INSTALLATION = "simulation"
"""The ids of attempts are made of it, and how an attempt ends is a matter of its id: a seed is one schedule on each server."""


class SimulatedDatabase(Database):
    """The product's, on simulated connections."""

    def __init__(self, pool: Any, server: Server, known: Memory, author: UUID | None, writer: str) -> None:
        super().__init__(pool, author, writer)
        self.memory = beginning_with(known)
        self.clock = SimulatedClock(server)  # type: ignore[assignment]  # what it has is all that is asked for

    def clear_memory(self) -> None:
        super().clear_memory()
        self.memory.installation = INSTALLATION


def beginning_with(known: Memory) -> Memory:
    """What never changes may be known from earlier schedules; the hints of each daemon are its own."""
    memory = Memory()
    memory.installation = INSTALLATION
    memory.graphs, memory.files, memory.dataset_ids = known.graphs, known.files, known.dataset_ids
    return memory
