"""The first page: what needs attention, what is at work, what comes next."""

from collections.abc import Sequence

from msgspec import Struct

from tidegate.daemon.gateway.endpoint import Call, Params, Read
from tidegate.daemon.permissions import Right
from tidegate.daemon.read_model.now import LISTED, NowPage, read_now
from tidegate.daemon.web.numbers import Stat
from tidegate.daemon.web.rendering import url
from tidegate.daemon.web.screen import Screen
from tidegate.schemas.queries.counting import counted_text
from tidegate.schemas.queries.db import Db


class NowScreen(Struct, frozen=True):
    """What needs attention, what is at work and what comes next, with the numbers of each."""

    found: NowPage
    stats: Sequence[Stat]


async def read(db: Db, call: Call[Params]) -> NowScreen:
    found = await read_now(db, call.settings)
    return NowScreen(found, stats(found))


def stats(found: NowPage) -> list[Stat]:
    daemons, due, active, waiting = len(found.daemons), len(found.due), found.counts.active, found.counts.waiting
    problems = f"{found.problems}{'+' if found.has_more_problems else ''}"
    return [
        Stat(problems, "needs attention" if problems == "1" else "need attention", is_bad=found.problems > 0),
        Stat(counted_text(active), "task holds slots" if active == 1 else "tasks hold slots"),
        Stat(counted_text(waiting), "task waits for slots" if waiting == 1 else "tasks wait for slots", address=url("queue")),
        Stat(str(daemons), "daemon is alive" if daemons == 1 else "daemons are alive", is_bad=not daemons),
        Stat(f"{due}{'+' if due >= LISTED else ''}", f"{'DAG is' if due == 1 else 'DAGs are'} due within an hour"),
    ]


SCREEN = Screen(Read("/", Right.VIEW, read, Params, NowScreen), "now.html")
