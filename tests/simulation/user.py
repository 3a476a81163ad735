"""A user, whose requests about backfills are steps between those of the daemons."""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any

import anyio

from tests.simulation.clock import SimulatedDatabase
from tests.simulation.dags import PAST
from tests.simulation.server import START
from tests.simulation.session import Pool
from tests.simulation.step import DUTY
from tidegate.daemon.engine import Batch, apply
from tidegate.daemon.request import Request, notify_daemons
from tidegate.handlers.runs.run_ids import backfill_run_id
from tidegate.schemas.backfill import Reprocess
from tidegate.schemas.error import UnavailableError
from tidegate.schemas.message import (
    BackfillActed,
    BackfillAction,
    BackfillChanged,
    BackfillRequested,
    ClearRequested,
    Message,
    RunEndRequested,
)
from tidegate.schemas.state import RunState

if TYPE_CHECKING:
    from tests.simulation.world import World

DAYS = 6
BACKFILLS = (1, 2)
"""Their ids. The dates of the second one may be those of the first: then it is refused while the first one is at work."""


def day(number: int) -> datetime:
    return START.replace(hour=0) - timedelta(days=20 - number)


def requests(chance: Random) -> Sequence[Request]:
    """What a user asks for, in this order; some of it is refused, such as the end of a run that is not there."""
    later = [_change(chance) for _ in range(chance.randint(2, 7))]
    later.insert(chance.randint(0, len(later)), _create(chance, BACKFILLS[1]))
    return [_create(chance, BACKFILLS[0]), *later]


def _create(chance: Random, id_: int) -> BackfillRequested:
    first = chance.randint(1, DAYS)
    return BackfillRequested(
        backfill_id=id_,
        dag_id=PAST,
        start_date=day(first),
        end_date=day(chance.randint(first, DAYS)),
        reprocess=chance.choice(list(Reprocess)),
        is_reverse=chance.random() < 0.3,
        max_active_runs=chance.randint(1, 3),
        max_active_tasks=chance.choice([None, None, 1]),
        max_failed_runs=chance.choice([0, 0, 1]),
    )


def _change(chance: Random) -> Request:
    id_, run_id = chance.choice(BACKFILLS), backfill_run_id(day(chance.randint(1, DAYS)))
    match chance.choice(["act"] * 5 + ["limit"] * 2 + ["clear"] * 2 + ["end"]):
        case "act":
            return _act(chance, id_)
        case "limit":
            return BackfillChanged(backfill_id=id_, changes={"max_active_runs": chance.randint(1, 3)})
        case "clear":
            return ClearRequested(dag_id=PAST, run_id=run_id)
        case _:
            return RunEndRequested(dag_id=PAST, run_id=run_id, state=chance.choice(ENDS), reason="a user")


AT_WORK = "SELECT DISTINCT dag_id, run_id FROM dag_run JOIN submission ON dag_run_id = id WHERE ended_at IS NULL ORDER BY 1, 2"

ENDS = [RunState.SUCCESS, RunState.FAILED]
ACTIONS = [*BackfillAction, BackfillAction.CANCEL, BackfillAction.RETRY, BackfillAction.RETRY]


def _act(chance: Random, id_: int) -> BackfillActed:
    action = chance.choice(ACTIONS)
    return BackfillActed(backfill_id=id_, action=action, kills=action is BackfillAction.CANCEL and chance.random() < 0.5)


class User:
    """Each request is a transaction of its own; several may be under way."""

    number = 0

    def __init__(self, world: "World") -> None:
        self.world = world
        self.dead = False
        self.database = SimulatedDatabase(Pool(self, world.scheduler), world.server, world.memory, None, "user")
        self._asked: list[tuple[str, asyncio.Task[None], anyio.CancelScope]] = []
        self.unanswered: list[str] = []

    def ask(self, request: Request) -> None:
        self.world.reached["request"] += 1
        self.world.scheduler.tell(f"user: {_said(request)}")
        scope = anyio.CancelScope()
        self._asked.append((_said(request), self.world.loop.create_task(self._ask(request, scope)), scope))

    async def _ask(self, request: Any, scope: anyio.CancelScope) -> None:
        DUTY.set("user")
        with scope:
            try:
                applied = await apply(self.database, Batch(messages=[Message(body=request, at=self.world.server.now)]))
            except UnavailableError:
                return
            self.world.reached["request refused"] += len(applied.rejected)
            await notify_daemons(self.database, applied.work)

    async def resume_all(self) -> None:
        """No backfill is left paused."""
        for (id_,) in await self.world.server.ask("SELECT id FROM backfill WHERE state = 'paused'"):
            self.ask(BackfillActed(backfill_id=id_, action=BackfillAction.RESUME))

    async def cancel(self) -> None:
        """End a run at work, if there is one. Its applications last until they are killed, or all is at rest."""
        if at_work := await self.world.server.ask(AT_WORK):
            dag_id, run_id = self.world.chance.choice(at_work)
            self.world.cluster.lasting.add(f"{dag_id}/{run_id}")
            self.ask(RunEndRequested(dag_id=dag_id, run_id=run_id, state=RunState.FAILED, reason="a user", only_if_active=True))

    def leave(self) -> None:
        """What it has asked for is not answered any more."""
        self.dead = True
        self.unanswered = [f"{said}: {trouble}" for said, task, _ in self._asked if (trouble := _trouble(task))]
        for _, _, scope in self._asked:
            scope.cancel()
        self.world.scheduler.silence(self.number)


def _trouble(task: asyncio.Task[None]) -> str:
    """Why a request has no answer. A refusal is one, and so is a server that is away."""
    if not task.done():
        return "not answered at rest"
    error = task.exception()
    return "" if error is None else f"ended with {error!r}"


def _said(request: Request) -> str:
    """For the story of a schedule."""
    match request:
        case BackfillRequested():
            dates = f"{request.start_date:%d} to {request.end_date:%d}"
            limits = f"{request.max_active_runs} runs, {request.max_active_tasks} tasks, {request.max_failed_runs} failures"
            return f"backfill {request.backfill_id} of {dates}, {request.reprocess}, {limits}"
        case BackfillActed():
            return f"{request.action} backfill {request.backfill_id}{', killing' if request.kills else ''}"
        case BackfillChanged():
            return f"set {request.changes} of backfill {request.backfill_id}"
        case ClearRequested():
            return f"clear {request.run_id}"
        case _:
            return f"end a run: {request}"
