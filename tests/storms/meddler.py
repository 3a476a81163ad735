"""What users do to DAGs in a storm: pause them, clear their runs, edit their file; and in the end leave everything in order."""

import hashlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random

import anyio
import asyncpg
import msgspec

from tests.storms import quiescence
from tests.storms.pipelines import INPUTS
from tidegate.daemon.postgres.database import Database, connect
from tidegate.daemon.request import Request, apply_request
from tidegate.schemas.error import DagFaultError, RequestError, UnavailableError
from tidegate.schemas.message import ClearRequested, PauseRequested, RunEndRequested, TaskMarked
from tidegate.schemas.read_plan import RUN_EVENTS
from tidegate.schemas.state import RunState, TaskState

FILE = "changing.py"
IDS = tuple(f"changing_{number}" for number in range(8))
MENDED_S = 120.0
ASK_AGAIN_S = 0.1
ORDERLY = "# in order again\n"

AT_WORK = "SELECT dag_id, run_id FROM dag_run WHERE state = 'running' ORDER BY id LIMIT 500"
TASKS_AT_WORK = """
    SELECT dag_id, run_id, task_id FROM task_instance JOIN dag_run AS run ON run.id = dag_run_id
    WHERE run.state = 'running' AND task_instance.state IN ('queued', 'running') ORDER BY run.id, task_index LIMIT 500
"""

Note = Callable[[str], None]


class Meddling(msgspec.Struct, frozen=True, kw_only=True):
    """How often within how many seconds: pauses of several DAGs at once, edits of the file of changing DAGs, clears of runs that
    have ended; and of runs at work: clears, cancels, marks of tasks.
    """

    pauses: int = 0
    edits: int = 0
    clears: int = 0
    clears_at_work: int = 0
    cancels: int = 0
    marks: int = 0
    paused_s: tuple[float, float] = (0.2, 2.0)
    within_s: float = 60.0


def draw(random: Random, *, orderly: bool = False) -> str:
    """A DAG file: each of its DAGs waits for other datasets than before, or for none, or is not in it."""
    ids = [id_ for id_ in IDS if orderly or random.random() < 0.9]
    lines = ["from tidegate import Dag, Dataset, DatasetPattern", "", *(line for id_ in ids for line in _dag(id_, random))]
    return "\n".join([ORDERLY if orderly else "", *lines, ""])


def _dag(id_: str, random: Random) -> Iterator[str]:
    inputs = [f'Dataset("storm://in/{number}")' for number in random.sample(range(INPUTS), random.randint(1, 3))]
    match random.randrange(6):
        case 0:
            schedule = inputs[0]
            facts = ', mode="each"'
        case 1:
            schedule, facts = 'DatasetPattern("storm://in/1*")', ""
        case 2:
            schedule, facts = "None", ""
        case _:
            schedule, facts = random.choice((" & ", " | ")).join(inputs), ""
    if random.random() < 0.2 and schedule != "None":
        facts += ", catchup=True"
    if random.random() < 0.3 and schedule != "None":
        facts += ', on_paused="keep"'
    yield f'with Dag("{id_}", schedule={schedule}, max_active_runs={random.randint(1, 3)}{facts}) as dag:'
    yield '    dag.empty("only")'


class Meddler:
    """A user of the servers of a storm, who knows that any of them may be away."""

    def __init__(self, random: Random, dsn: str, folder: Path, note: Note, run_events: int = RUN_EVENTS) -> None:
        self._random = random
        self._dsn = dsn
        self._file = folder / FILE
        self._note = note
        self._run_events = run_events

    async def meddle(self, meddling: Meddling) -> None:
        """Return when all is done."""
        async with connect(self._dsn, connections=2, run_events=self._run_events) as database, anyio.create_task_group() as tg:
            lanes: Sequence[tuple[int, Callable[[], Awaitable[None]]]] = (
                (meddling.pauses, partial(self._pause, database, meddling)),
                (meddling.edits, self._edit),
                (meddling.clears, partial(self._clear, database)),
                (meddling.clears_at_work, partial(self._clear_at_work, database)),
                (meddling.cancels, partial(self._cancel, database)),
                (meddling.marks, partial(self._mark, database)),
            )
            for count, act in lanes:
                tg.start_soon(spread, self._random, count, meddling.within_s, act)

    async def _pause(self, database: Database, meddling: Meddling) -> None:
        dag_ids = await self._some(database, "SELECT dag_id FROM dag ORDER BY dag_id", 8)
        self._note(f"pause {len(dag_ids)} DAGs")
        for (dag_id,) in dag_ids:
            await self._ask(database, PauseRequested(dag_id=dag_id, is_paused=True))
        await anyio.sleep(self._random.uniform(*meddling.paused_s))
        for (dag_id,) in dag_ids:
            await self._resume(database, dag_id)

    async def _resume(self, database: Database, dag_id: str) -> None:
        """Again until it is answered: the runs of a DAG that stays paused come late, which is no fault of the product."""
        while not await self._ask(database, PauseRequested(dag_id=dag_id, is_paused=False)):
            await anyio.sleep(ASK_AGAIN_S)

    async def _clear(self, database: Database) -> None:
        sql = "SELECT dag_id, run_id, state FROM dag_run WHERE state IN ('success', 'failed') ORDER BY id DESC LIMIT 500"
        for dag_id, run_id, state in await self._some(database, sql, 4):
            self._note(f"clear {run_id} of {dag_id}")
            await self._ask(database, ClearRequested(dag_id=dag_id, run_id=run_id, only_failed=state == "failed"))

    async def _clear_at_work(self, database: Database) -> None:
        for dag_id, run_id in await self._some(database, AT_WORK, 2):
            self._note(f"clear {run_id} of {dag_id}, which is at work")
            await self._ask(database, ClearRequested(dag_id=dag_id, run_id=run_id))

    async def _cancel(self, database: Database) -> None:
        for dag_id, run_id in await self._some(database, AT_WORK, 1):
            self._note(f"cancel {run_id} of {dag_id}")
            end = RunEndRequested(dag_id=dag_id, run_id=run_id, state=RunState.FAILED, reason="cancelled", only_if_active=True)
            await self._ask(database, end)

    async def _mark(self, database: Database) -> None:
        for dag_id, run_id, task_id in await self._some(database, TASKS_AT_WORK, 1):
            self._note(f"mark {task_id} of {run_id} of {dag_id}")
            state = self._random.choice((TaskState.SUCCESS, TaskState.FAILED))
            await self._ask(database, TaskMarked(dag_id=dag_id, run_id=run_id, task_id=task_id, state=state))

    async def _edit(self) -> None:
        self._note(f"edit {FILE}")
        self._write(draw(self._random))

    def _write(self, source: str) -> None:
        """At once, as editors do."""
        draft = self._file.with_suffix(".draft")
        draft.write_text(source)
        draft.replace(self._file)

    async def _some(self, database: Database, sql: str, most: int) -> Sequence[asyncpg.Record]:
        try:
            found = await database.autocommit(lambda db: db.fetch(sql))
        except UnavailableError:
            return []
        return self._random.sample(found, min(most, len(found)))

    async def _ask(self, database: Database, request: Request) -> bool:
        """Whether there was an answer. A refusal is one."""
        with suppress(RequestError, DagFaultError):
            try:
                await apply_request(database, request)
            except UnavailableError:
                return False
        return True

    async def mend(self, dags: int) -> None:
        """Return when no DAG is paused, and the daemons know all of them as they are to stay. Raises TimeoutError."""
        source = draw(self._random, orderly=True)
        self._note(f"{FILE} is in order again")
        self._write(source)
        async with connect(self._dsn, connections=1, run_events=self._run_events) as database:
            await quiescence.until(
                lambda: self._is_orderly(database, hashlib.sha256(source.encode()).hexdigest(), dags), MENDED_S
            )

    async def _is_orderly(self, database: Database, digest: str, dags: int) -> bool:
        for row in await self._some(database, "SELECT dag_id FROM dag WHERE is_paused", 1000):
            await self._ask(database, PauseRequested(dag_id=row[0], is_paused=False))
        sql = "SELECT count(*) FROM dag WHERE NOT is_paused AND NOT is_stale"
        known = await self._some(database, f"SELECT digest FROM dag_file WHERE path = '{FILE}'", 1)
        return [row[0] for row in known] == [digest] and [row[0] for row in await self._some(database, sql, 1)] == [dags]


async def spread(random: Random, count: int, within_s: float, act: Callable[[], Awaitable[None]]) -> None:
    """Act `count` times, at drawn moments that are about equally far apart."""
    begin = anyio.current_time()
    for number in range(count):
        await anyio.sleep_until(begin + within_s * (number + random.uniform(0.2, 0.8)) / count)
        await act()
