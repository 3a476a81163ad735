"""The first page: what needs attention, what is at work, what comes next."""

from tidegate.daemon.gateway.endpoint import Call, Params, Read
from tidegate.daemon.permissions import Right
from tidegate.daemon.read_model.now import NowPage, read_now
from tidegate.daemon.web.screen import Screen
from tidegate.schemas.queries.db import Db


async def read(db: Db, call: Call[Params]) -> NowPage:
    return await read_now(db, call.settings)


SCREEN = Screen(Read("/", Right.VIEW, read, Params, NowPage), "now.html")
