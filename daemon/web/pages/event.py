"""An event: its outcome for each DAG, and the runs and events that followed from it."""

from tidegate.daemon.api.datasets import EventPath
from tidegate.daemon.gateway.endpoint import Call, Read
from tidegate.daemon.permissions import Right
from tidegate.daemon.read_model.event import EventLife, read_life
from tidegate.daemon.web.screen import Screen
from tidegate.schemas.queries.db import Db


async def read(db: Db, call: Call[EventPath]) -> EventLife:
    return await read_life(db, call.params.number)


SCREEN = Screen(Read("/events/{number}", Right.VIEW, read, EventPath, EventLife), "event.html")
