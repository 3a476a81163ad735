"""A storm in which Postgres changes its server: the primary is killed, its standby takes over, and gets a standby of its own."""

from contextlib import AsyncExitStack
from pathlib import Path
from typing import cast

import anyio
import asyncpg

from tests.failover.primary_with_standby import Couple
from tests.storms.checker import Verdict
from tests.storms.links import PostgresLink
from tests.storms.meddler import Meddling
from tests.storms.nemesis import Misery
from tests.storms.storm import Plan, Storm
from tidegate.daemon.standalone.postgres import Postgres

WROTE = "SELECT count(*) FROM commit_mark WHERE at > $1"
LOSSES = "SELECT count(*) FROM commit_loss"
LOOK_EVERY_S = 0.01


class FailoverStorm(Storm):
    """As every storm, but that the daemons find the primary by themselves, with nothing in between.

    `first_commits` is how long after each promotion a daemon has committed again, in seconds.
    """

    def __init__(self, plan: Plan, home: Path, cache: Path, seed: int) -> None:
        super().__init__(plan, home, cache, seed)
        self.couple = Couple(home / "postgres")
        # It replaces the single server of a storm, except that no storm crashes it.
        self.postgres = cast(Postgres, self.couple)
        self.first_commits: list[float] = []
        self.losses = 0

    async def _way_to_postgres(self, _name: str, _stack: AsyncExitStack) -> PostgresLink | None:
        return None

    async def _rage(self) -> None:
        async with anyio.create_task_group() as tg:
            tg.start_soon(self._fail_over)
            await super()._rage()

    async def _fail_over(self) -> None:
        begin = anyio.current_time()
        for number in range(self.plan.promotions):
            await anyio.sleep_until(begin + self.plan.send_s * (number + self.random.uniform(0.3, 0.6)) / self.plan.promotions)
            await self.couple.fail_over()
            first_commit_s = await self._first_commit()
            self.first_commits.append(first_commit_s)
            how = "rewound" if number % 2 else "copied"
            self.diary.append((anyio.current_time() - begin, f"failed over, first commit {first_commit_s:.2f} s after; {how}"))
            await self.couple.rebuild(rewind=how == "rewound")

    async def _first_commit(self) -> float:
        """Seconds from when the new primary takes writes."""
        db = await asyncpg.connect(self.couple.primary.dsn)
        try:
            promoted_at, began_at = await db.fetchval("SELECT clock_timestamp()"), anyio.current_time()
            while not await db.fetchval(WROTE, promoted_at):
                await anyio.sleep(LOOK_EVERY_S)
        finally:
            await db.close()
        return anyio.current_time() - began_at

    async def _judge(self) -> Verdict:
        self.losses = await self.couple.primary.ask(LOSSES)
        return await super()._judge()

    def report(self, verdict: Verdict) -> str:
        waits = ", ".join(f"{wait_s:.2f}" for wait_s in self.first_commits)
        told = f"{self.couple.promotions:7} promotions; seconds to the first commit: {waits}\n{self.losses:7} losses found"
        return f"{super().report(verdict)}\n{told}"


SMALL = Plan(
    promotions=2,
    events=4_000,
    again_share=0.2,
    bad=40,
    send_s=24,
    misery=Misery(kills=2, every_s=(3.0, 9.0), within_s=20),
    meddling=Meddling(pauses=4, edits=4, clears=4, within_s=22),
    rest_s=30,
)

FULL = Plan(
    promotions=5,
    events=20_000,
    again_share=0.2,
    bad=100,
    send_s=90,
    misery=Misery(kills=10, terms=2, stops=2, every_s=(2.0, 8.0), broker_kills=1, within_s=85),
    meddling=Meddling(pauses=12, edits=15, clears=15, within_s=85),
)
