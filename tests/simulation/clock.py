"""What a client of Postgres in the simulation goes by: the clock of the loop, and what never changes."""

from datetime import datetime

from tests.simulation.server import Server
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


def beginning_with(known: Memory) -> Memory:
    """What never changes may be known from earlier schedules; the hints of each daemon are its own."""
    memory = Memory()
    memory.installation = "simulation"
    memory.graphs, memory.files, memory.dataset_ids = known.graphs, known.files, known.dataset_ids
    return memory
