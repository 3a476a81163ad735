"""A storm in which daemons of one build are replaced by those of the next one, one after the other, over a migration."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import asyncpg
import msgspec

from tests.acceptance.command import Ended, environment, run
from tests.storms.links import PostgresLink
from tests.storms.nemesis import Misery
from tests.storms.processes import Daemon, build_env
from tests.storms.storm import Plan, Storm
from tests.storms.upgrade.builds import command
from tidegate.daemon.leases import NOT_RENEWED

EXPECTED = {"attempt_failed", "batch_bisected", "notification_failed", "record_refused"}
"""Log events that failing tasks, bad records, and deadlines without a receiver, cause."""

PLAN = Plan(events=4_000, again_share=0.2, bad=40, send_s=30, misery=Misery(), rest_s=60, script={"run_s": (0.05, 0.2)})
MIGRATE_AT_S = 4.0
JOINED_S = 60.0
SIDE_BY_SIDE_S = 8.0
"""So long both builds are at work."""

JOINED = "SELECT EXISTS (SELECT FROM job WHERE split_part(host, '/', 1) = $1 AND started_at > $2)"


class UpgradeStorm(Storm):
    """`refused` is what a daemon of the next build said before the migration, `migrated` what the migration did."""

    def __init__(self, home: Path, cache: Path, seed: int, *, before: Path, after: Path) -> None:
        super().__init__(PLAN, home, cache, seed)
        self.before = before
        self.after = after
        self.refused: Ended | None = None
        self.migrated: Ended | None = None

    async def tidegate(self, build: Path, *words: str) -> Ended:
        settings = {"TIDEGATE_POSTGRES_DSN": self.postgres.dsn, "TIDEGATE_KAFKA_SERVERS": self.kafka.bootstrap}
        return await run(*command(*words), env={**environment(), **settings, **build_env(build)}, cwd=self.home)

    async def _migrate(self) -> None:
        await self.tidegate(self.before, "migrate")

    async def _way_to_postgres(self, _name: str, _stack: AsyncExitStack) -> PostgresLink | None:
        return None

    async def _daemon(self, name: str, cluster: str, stack: AsyncExitStack) -> Daemon:
        daemon = await super()._daemon(name, cluster, stack)
        daemon.root = self.before
        return daemon

    async def _rage(self) -> None:
        async with anyio.create_task_group() as tg:
            tg.start_soon(self._upgrade)
            await super()._rage()

    async def _upgrade(self) -> None:
        await anyio.sleep(MIGRATE_AT_S)
        self.refused = await self.tidegate(self.after, "daemon")
        self.migrated = await self.tidegate(self.after, "migrate", "--json")
        for daemon in self.daemons:
            await self._replace(daemon)
            await anyio.sleep(SIDE_BY_SIDE_S)

    async def _replace(self, daemon: Daemon) -> None:
        """Return when the next one is at work."""
        db = await asyncpg.connect(self.postgres.dsn)
        try:
            before = await db.fetchval("SELECT clock_timestamp()")
            daemon.root = self.after
            daemon.terminate()
            with anyio.fail_after(JOINED_S):
                while not await db.fetchval(JOINED, f"host-{daemon.name}", before):
                    await anyio.sleep(0.1)
        finally:
            await db.close()

    @property
    def complaints(self) -> list[str]:
        """What daemons said that is worse than a piece of news, and is of no storm."""
        lines = [line for log in sorted(self.home.glob("daemon-*.log")) for line in log.read_bytes().splitlines()]
        said = [msgspec.json.decode(line) for line in lines]
        return [str(line) for line in said if line["level"] not in ("debug", "info") and not _is_expected(line)]


def _is_expected(line: Mapping[str, Any]) -> bool:
    if line["event"] in ("server_lost", "server_unsteady"):
        return bool(line["server"] == "the cluster" or line["error"] == NOT_RENEWED)  # a slow machine is enough
    return line["event"] in EXPECTED
