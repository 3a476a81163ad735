"""What comes in beside the hostile records of a storm: files, damaged versions, forged ends, commands that must be refused."""

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import anyio
import asyncpg
import msgspec

from tests.acceptance.command import Command
from tests.storms import quiescence
from tests.storms.hostile import pipelines, records
from tests.storms.hostile.pipelines import BAD_FILES, DAMAGES, HOARDER, MAPPED, TICKING, VICTIMS, ZONE
from tests.storms.meddler import Note, spread
from tests.storms.producers import Tally, produce
from tidegate.daemon.postgres.database import Database, connect
from tidegate.daemon.request import Request, apply_request
from tidegate.schemas.error import DagFaultError, RequestError, UnavailableError
from tidegate.schemas.message import ClearRequested, PauseRequested, ReleaseRequested, RunEndRequested, RunRequested
from tidegate.schemas.state import RunState

WITHDRAWN_S = 180.0
PATIENCE_S, LOOK_S = 30.0, 0.05

REFUSED: Sequence[Sequence[str]] = (
    ("runs", "trigger", MAPPED, "--run-after", "9999-12-31T23:59:59.999999Z"),
    ("runs", "trigger", MAPPED, "--logical-date", "0001-01-01"),
    ("runs", "trigger", TICKING, "--run-id", "scheduled__2026-01-01T00:00:00+00:00"),
    ("runs", "trigger", MAPPED, "--conf", "[" * 2000),
    ("dags", "release", HOARDER),
    ("runs", "clear", MAPPED, "dataset__\x1b[31m", "--yes"),
)
"""Commands that end with an error, whatever the state of the installation."""


REMOVED_AT_WORK = """
    SELECT FROM submission JOIN dag_run AS run ON run.id = submission.dag_run_id
    WHERE run.dag_id = $1 AND run.state = 'running' AND submission.state = 'accepted' AND submission.task_index > 0 LIMIT 1
"""
"""The task that both editions of the mapped DAG have is the first."""

TO_RUN_AGAIN = """
    WITH run AS (
        SELECT run.* FROM dag_run AS run JOIN dag_version AS version ON version.id = run.version_id
        WHERE run.dag_id = $1 AND jsonb_array_length(version.spec -> 'tasks') > 1
    )
    SELECT run_id FROM run
    WHERE state IN ('success', 'failed') AND NOT EXISTS (SELECT FROM run AS other WHERE other.state IN ('queued', 'running'))
    ORDER BY id DESC LIMIT 1
"""


class Intrusion(msgspec.Struct, frozen=True, kw_only=True):
    """How much of what within how many seconds; `damaged_s` is for how long a version stays damaged."""

    files: int = 0
    damages: int = 0
    damaged_s: tuple[float, float] = (2.0, 6.0)
    clears: int = 0
    forgeries: int = 0
    commands: int = 0
    requests: int = 0
    within_s: float = 60.0


class Intruder:
    """`files` are the bad files that it left; `wrong` are wrong answers; `cleared` are runs by DAG and id."""

    def __init__(
        self,
        random: Random,
        folder: Path,
        end: float,
        note: Note,
        *,
        dsn: str,
        servers: str,
        topic: str,
        run_events: int,
        env: dict[str, str],
    ) -> None:
        self.files: set[str] = set()
        self.wrong: list[str] = []
        self.cleared: set[tuple[str, str]] = set()
        self.forged = Tally()
        self.damages = 0
        self.shown_held = 0
        self._random = random
        self._folder = folder
        self._end = end
        self._note = note
        self._dsn = dsn
        self._servers = servers
        self._topic = topic
        self._run_events = run_events
        self._command = Command(folder.parent, **env)
        self._editions = 0
        self._patience_s = PATIENCE_S
        self._damaged: set[str] = set()

    async def intrude(self, intrusion: Intrusion) -> None:
        """Return when all is done."""
        async with connect(self._dsn, connections=3, run_events=self._run_events) as database, anyio.create_task_group() as tg:
            await self._ask(database, PauseRequested(dag_id=HOARDER, is_paused=True))
            lanes: Sequence[tuple[int, Callable[[], Awaitable[None]]]] = (
                (intrusion.files, self._write_bad),
                (intrusion.damages, partial(self._damage, database, intrusion)),
                (intrusion.clears, partial(self._clear, database)),
                (intrusion.forgeries, partial(self._forge, database)),
                (intrusion.commands, self._try_command),
                (intrusion.requests, partial(self._request, database)),
            )
            for count, act in lanes:
                tg.start_soon(spread, self._random, count, intrusion.within_s, act)

    async def _write_bad(self) -> None:
        kind = list(BAD_FILES)[len(self.files) % len(BAD_FILES)]
        name = f"bad_{len(self.files):03}_{kind}.py"
        self._note(f"put {name} into the folder")
        self.files.add(name)
        BAD_FILES[kind](self._folder / name)

    async def _damage(self, database: Database, intrusion: Intrusion) -> None:
        """A stored version of a DAG; it is mended, and a user or a new file releases the DAG."""
        dag_id = self._random.choice([*VICTIMS, TICKING])
        how = ZONE if dag_id == TICKING else self._random.choice(DAMAGES)
        self._damaged.add(dag_id)
        self.damages += 1
        if self._random.random() < 0.5:
            self._note(f"{dag_id} has a version that is damaged from the beginning: {how}")
            self._edit(dag_id, f"damaged {how} {self.damages}")
        else:
            self._note(f"damage the version of {dag_id}: {how}")
            await self._sql(database, "SELECT storm_damage($1, $2)", dag_id, how)
        await anyio.sleep(self._random.uniform(*intrusion.damaged_s))
        await self._look(database, dag_id)
        if self._random.random() < 0.5:
            self._note(f"{dag_id} has a good file again")
            self._edit(dag_id, f"good {self.damages}")
        else:
            self._note(f"mend the version of {dag_id}, and release it")
            await self._sql(database, "SELECT storm_mend($1)", dag_id)
            await self._ask(database, ReleaseRequested(dag_id=dag_id))

    async def _look(self, database: Database, dag_id: str) -> None:
        """A DAG that is held before the command and after it is shown as held, with the reason."""
        sql = "SELECT held_since FROM dag WHERE dag_id = $1 AND held_since IS NOT NULL"
        before = await self._sql(database, sql, dag_id)
        ended = await self._command("dags", "why-not", dag_id, "--json") if before else None
        if ended is not None and ended.code == 0 and await self._sql(database, sql, dag_id) == before:
            self.shown_held += 1
            if "dag_held" not in ended.out:
                self.wrong.append(f"{dag_id} is held since {before}, and shown as {ended.out:.300}")

    def _edit(self, dag_id: str, description: str) -> None:
        self._write(
            f"{dag_id}.py",
            pipelines.ticking(self._end, description) if dag_id == TICKING else pipelines.victim(dag_id, description),
        )

    def _write(self, name: str, text: str) -> None:
        """At once, as editors do."""
        draft = self._folder / f"{name}.draft"
        draft.write_text(text)
        draft.replace(self._folder / name)

    async def _clear(self, database: Database) -> None:
        """A mapped run while it is at work: onto the newest version right after it is cancelled, or onto its own.

        The oldest runs have the version before, as soon as the new one is filed. Tasks that the new one lacks are at work then.
        """
        self._editions += 1
        is_full = self._editions % 2 == 0
        self._write(f"{MAPPED}.py", pipelines.mapped(full=is_full))
        await self._look_until(partial(self._are_filed, database, [self._folder / f"{MAPPED}.py"]))
        if not is_full:
            await self._look_until(partial(self._is_at_work, database))
        sql = "SELECT run_id FROM dag_run WHERE dag_id = $1 AND state = 'running' ORDER BY id LIMIT 2"
        for (run_id,) in await self._sql(database, sql, MAPPED):
            newest = not is_full or self._random.random() < 0.5
            self._note(f"clear {run_id} of {MAPPED} while it is at work{', onto the newest version' if newest else ''}")
            self.cleared.add((MAPPED, run_id))
            if newest:
                end = RunEndRequested(dag_id=MAPPED, run_id=run_id, state=RunState.FAILED, reason="cancelled")
                await self._ask(database, end)
            await self._ask(database, ClearRequested(dag_id=MAPPED, run_id=run_id, newest_version=newest))

    async def _look_until(self, is_so: Callable[[], Awaitable[bool]]) -> None:
        """Daemons that were waited for in vain are not waited for again: a seeded fault may have ended them."""
        with anyio.move_on_after(self._patience_s) as patience:
            while not await is_so():
                await anyio.sleep(LOOK_S)
        if patience.cancelled_caught:
            self._patience_s = 0.0

    async def _is_at_work(self, database: Database) -> bool:
        """Whether tasks are that the newest version lacks. If no run has any, one that has ended runs again with its version."""
        if await self._sql(database, REMOVED_AT_WORK, MAPPED):
            return True
        for (run_id,) in await self._sql(database, TO_RUN_AGAIN, MAPPED):
            self._note(f"clear {run_id} of {MAPPED}")
            self.cleared.add((MAPPED, run_id))
            await self._ask(database, ClearRequested(dag_id=MAPPED, run_id=run_id, newest_version=False))
        return False

    async def _forge(self, database: Database) -> None:
        sql = "SELECT submission_id FROM submission ORDER BY created_at DESC LIMIT 20"
        known = [row[0] for row in await self._sql(database, sql)]
        forged = [records.forged(self._random, known) for _ in range(5)]
        await produce(self._servers, self._topic, forged, self.forged, within_s=0)

    async def _request(self, database: Database) -> None:
        """What a program asks for that is no command: nothing of it is granted."""
        requests: Sequence[Request] = (
            RunRequested(dag_id=TICKING, run_id=f"scheduled__{datetime.now(UTC).isoformat()}", conf={}),
            RunRequested(dag_id=MAPPED, run_id="dataset__1", conf={}),
            RunRequested(dag_id="nowhere", run_id=None, conf={}),
            ReleaseRequested(dag_id=HOARDER),
            ClearRequested(dag_id=MAPPED, run_id="nothing"),
            PauseRequested(dag_id="x" * 10_000, is_paused=True),
        )
        request = self._random.choice(requests)
        if await self._ask(database, request):
            self.wrong.append(str(request))

    async def _try_command(self) -> None:
        words = self._random.choice(REFUSED)
        ended = await self._command(*words)
        if ended.code == 0 or "Traceback" in ended.err:
            self.wrong.append(f"{words}: {ended}")

    async def _sql(self, database: Database, sql: str, *arguments: Any) -> Sequence[asyncpg.Record]:
        try:
            return await database.autocommit(lambda db: db.fetch(sql, *arguments))
        except UnavailableError:
            return []

    async def _ask(self, database: Database, request: Request) -> bool:
        """Whether it was granted."""
        with suppress(RequestError, UnavailableError, DagFaultError):
            await apply_request(database, request)
            return True
        return False

    async def withdraw(self) -> None:
        """Return when all versions are mended, no DAG is held or paused, and every file is known. Raises TimeoutError."""
        self._note("mend all versions and release all DAGs")
        async with connect(self._dsn, connections=1, run_events=self._run_events) as database:
            await quiescence.until(lambda: self._is_orderly(database), WITHDRAWN_S)

    async def _is_orderly(self, database: Database) -> bool:
        # First, so that all that they brought is mended below.
        edits_are_filed = await self._are_filed(database, [self._folder / f"{dag_id}.py" for dag_id in self._damaged])
        for dag_id in self._damaged:
            await self._sql(database, "SELECT storm_mend($1)", dag_id)
        held = [row[0] for row in await self._sql(database, "SELECT dag_id FROM dag WHERE held_since IS NOT NULL")]
        paused = [row[0] for row in await self._sql(database, "SELECT dag_id FROM dag WHERE is_paused")]
        for dag_id in held:
            await self._ask(database, ReleaseRequested(dag_id=dag_id))
        for dag_id in paused:
            await self._ask(database, PauseRequested(dag_id=dag_id, is_paused=False))
        known = {row[0] for row in await self._sql(database, "SELECT path FROM import_error")}
        return edits_are_filed and not held and not paused and known == self.files

    async def _are_filed(self, database: Database, files: Sequence[Path]) -> bool:
        """Whether the daemons know each of these files as it is: a version that is damaged from the beginning may come late."""
        edited = {(file.name, hashlib.sha256(file.read_bytes()).hexdigest()) for file in files}
        return edited <= {(row[0], row[1]) for row in await self._sql(database, "SELECT path, digest FROM dag_file")}
