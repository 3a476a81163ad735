"""Which runs consumed what a run wrote, and which inputs of a run were written again since."""

from collections.abc import Collection
from datetime import datetime

import msgspec

from tidegate.schemas.message import MARKED_BY
from tidegate.schemas.notice import instance_name
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.sql import load
from tidegate.schemas.state import RunStateName, TaskStateName

_SQL = load("consumers")

MOST_INPUTS = 100
"""The most inputs of a run that are said to be written again."""

Written = tuple[str, str, str | None]
"""The DAG, the run and the task that wrote; without a task all of the run."""


class ConsumerRun(msgspec.Struct, frozen=True):
    """A run that consumed an event of the run `producer_run_id` of the DAG `producer_dag_id`. It keeps what it has read."""

    producer_dag_id: str
    producer_run_id: str
    uri: str
    dag_id: str
    run_id: str
    state: RunStateName
    is_paused: bool
    is_stale: bool


class RewrittenInput(msgspec.Struct, frozen=True):
    """A dataset that a run consumed, and the task that has written it again since the run started.

    `written_at` None: the task has not ended, and has its state.
    """

    dag_id: str
    run_id: str
    task_id: str
    map_index: int | None
    uri: str
    state: TaskStateName
    written_at: datetime | None

    @property
    def label(self) -> str:
        """The name of the task instance in its run."""
        return instance_name(self.task_id, self.map_index)


async def consumers_of(db: Db, written: Collection[Written], limit: int) -> list[ConsumerRun]:
    """The first runs that consumed what these tasks wrote."""
    rows = await db.fetch(_SQL["consumers_of"], *zip(*sorted(written, key=str), strict=True), limit) if written else ()
    return [ConsumerRun(*row) for row in rows]


async def rewritten_inputs(db: Db, dag_id: str, run_id: str) -> list[RewrittenInput]:
    """The inputs of a run that were written again since it started."""
    return [RewrittenInput(*row) for row in await db.fetch(_SQL["rewritten_inputs"], dag_id, run_id, MARKED_BY, MOST_INPUTS)]
