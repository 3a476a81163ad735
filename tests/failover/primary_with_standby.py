"""Two Postgres servers: a primary and its standby, which change places."""

import shutil
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

import anyio
import asyncpg
import psutil

from tests.waiting import until
from tidegate.daemon.standalone.port import LOOPBACK
from tidegate.daemon.standalone.postgres import DATABASE, SETTINGS, SUPERUSER, Postgres

WITHIN_S = 30.0
LOOK_EVERY_S = 0.02

NO_SYNC = "--no-sync"
"""It is processes that end here, and no machine: what is written once need not be on the disk."""

KEPT = "wal_keep_size = 1GB\n"
"""Also for the recovery that precedes a rewind, which must not recycle what the rewind reads."""

STREAMS = "SELECT count(*) = 1 FROM pg_stat_replication WHERE application_name = $1 AND state = 'streaming'"
IN_STEP = "SELECT count(*) = 1 FROM pg_stat_replication WHERE application_name = $1 AND sync_state = 'sync'"
HAS_ALL = "SELECT count(*) = 1 FROM pg_stat_replication WHERE application_name = $1 AND replay_lsn >= $2::text::pg_lsn"
SENDER = "SELECT pid FROM pg_stat_replication WHERE application_name = $1"
NOTED = "SELECT pg_logical_emit_message(true, 'couple', '')"
"""Writes something, and so returns when the standby has everything before it, if that is waited for."""


class Member(Postgres):
    """A server that may be the primary, or a standby of another one."""

    settings: ClassVar[Mapping[str, str]] = {
        **SETTINGS,
        "wal_level": "replica",
        "max_wal_senders": "10",
        "hot_standby": "on",
        "wal_receiver_status_interval": "1",
        "max_standby_streaming_delay": "-1",
        "max_standby_archive_delay": "-1",
    }
    """What is asked of a standby gets its answer: replay waits for it."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.follows: Member | None = None

    async def ask(self, question: str, *arguments: Any) -> Any:
        """As superuser."""
        db = await asyncpg.connect(self.dsn, timeout=10)
        try:
            return await db.fetchval(question, *arguments)
        finally:
            await db.close()

    async def promote(self) -> None:
        """Return when it takes writes."""
        await self.ask("SELECT pg_promote(false)")
        await self.until("SELECT NOT pg_is_in_recovery()")
        self.follows = None

    async def until(self, holds: str, *arguments: Any) -> None:
        """Ask until the answer is true. Raises TimeoutError."""
        await until(lambda: self.ask(holds, *arguments), WITHIN_S, LOOK_EVERY_S)

    async def follow(self, primary: "Member", *, rewind: bool) -> None:
        """Become its standby: by a copy of it, or by taking back what it does not have of ours."""
        self.follows = primary
        if rewind:
            await self._finish(
                "pg_rewind", f"--target-pgdata={self._data}", f"--source-server={self._source()}", "--write-recovery-conf"
            )
        else:
            shutil.rmtree(self._data, ignore_errors=True)
        await self.start()

    async def _fill(self, folder: Path) -> None:
        if self.follows is None:
            await super()._fill(folder)
            with (folder / "postgresql.conf").open("a") as file:
                file.write(KEPT)
        else:
            what = (NO_SYNC, "--wal-method=stream", "--checkpoint=fast", "--write-recovery-conf")
            await self._finish("pg_basebackup", f"--pgdata={folder}", f"--dbname={self._source()}", *what)

    def _source(self) -> str:
        assert self.follows is not None
        return f"host={LOOPBACK} port={self.follows.port} user={SUPERUSER} dbname=postgres application_name={self.home.name}"


class Couple:
    """`synchronous`: the primary's commits wait for the standby, whenever there is one."""

    def __init__(self, home: Path, *, synchronous: bool = True) -> None:
        self.primary = Member(home / "one")
        self.standby = Member(home / "two")
        self.synchronous = synchronous
        self.promotions = 0

    @property
    def dsn(self) -> str:
        """Whichever is the primary."""
        one, two = sorted(member.port for member in (self.primary, self.standby))
        places = f"{LOOPBACK}:{one},{LOOPBACK}:{two}"
        return f"postgresql://{SUPERUSER}@{places}/{DATABASE}?target_session_attrs=read-write"

    async def __aenter__(self) -> Self:
        try:
            await self.primary.start()
            await self.standby.follow(self.primary, rewind=False)
            await self.in_step()
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self._stop()

    async def fail_over(self) -> None:
        """The primary is killed, and the standby takes over at once."""
        await self.primary.crash()
        await self.take_over()

    async def take_over(self) -> None:
        """Promote the standby. Its commits wait for no standby until it has one."""
        self.primary, self.standby = self.standby, self.primary
        await self.primary.promote()
        self.promotions += 1
        await self._wait_for("")

    async def rebuild(self, *, rewind: bool) -> None:
        """The former primary becomes the standby."""
        await self.standby.follow(self.primary, rewind=rewind)
        await self.in_step()

    async def in_step(self) -> None:
        """The standby has everything; and will have, where commits wait for it."""
        name = self.standby.home.name
        await self.primary.until(STREAMS, name)
        if self.synchronous:
            await self._wait_for(name)
            await self.primary.until(IN_STEP, name)
            await self.primary.ask(NOTED)

    async def caught_up(self) -> None:
        """The standby has everything that is committed by now."""
        await self.primary.until(HAS_ALL, self.standby.home.name, await self.primary.ask("SELECT pg_current_wal_lsn()::text"))

    @asynccontextmanager
    async def held_back(self) -> AsyncIterator[None]:
        """Nothing reaches the standby."""
        sender = psutil.Process(await self.primary.ask(SENDER, self.standby.home.name))
        sender.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            if sender.is_running():
                sender.send_signal(signal.SIGCONT)

    @asynccontextmanager
    async def frozen(self) -> AsyncIterator[None]:
        """The primary of now stands still with all its connections."""
        postmaster = psutil.Process(self.primary.pid)
        family = [postmaster, *postmaster.children()]
        for process in family:
            process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            for process in filter(psutil.Process.is_running, family):
                process.send_signal(signal.SIGCONT)

    async def _wait_for(self, names: str) -> None:
        db = await asyncpg.connect(self.primary.dsn, timeout=10)
        try:
            await db.execute("SET synchronous_commit = local")
            await db.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'")
            await db.execute("SELECT pg_reload_conf()")
        finally:
            await db.close()

    async def _stop(self) -> None:
        with anyio.CancelScope(shield=True):
            await self.standby.stop()
            await self.primary.stop()
