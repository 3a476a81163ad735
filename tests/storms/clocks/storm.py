"""A storm in which the clocks of daemons are wrong by ten minutes, or jump; that of Postgres is right."""

import time
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar

import asyncpg
from msgspec.structs import replace

from tests.storms.checker import Verdict
from tests.storms.clocks.invariants import (
    Window,
    no_time_in_the_database_is_of_a_wrong_clock,
    no_time_in_the_topics_is_of_a_wrong_clock,
    nothing_starts_early_or_late,
    timed_runs,
)
from tests.storms.clocks.pipelines import POOL, files
from tests.storms.settings import PREFIX
from tests.storms.storm import Plan, Storm

CLOCK = "SELECT clock_timestamp()"


class ClocksStorm(Storm):
    """`late_s` is more than what daemons that were killed cost, and much less than any clock is wrong by."""

    late_s: ClassVar[float] = 15.0

    def __init__(self, plan: Plan, home: Path, cache: Path, seed: int) -> None:
        super().__init__(replace(plan, files=files(time.time() + plan.timed_s)), home, cache, seed)
        self._began_at: datetime | None = None

    def _arguments(self, name: str) -> list[str]:
        return [*super()._arguments(name), f"--clock={self.plan.clocks[name]}"]

    async def _set_up(self, db: "asyncpg.Connection[asyncpg.Record]") -> None:
        await super()._set_up(db)
        await db.execute(POOL)
        self._began_at = await db.fetchval(CLOCK)

    async def _judge(self) -> Verdict:
        verdict = await super()._judge()
        db = await asyncpg.connect(self.postgres.dsn)
        try:
            assert self._began_at is not None
            window = Window(self._began_at, await db.fetchval(CLOCK))
            more: dict[str, Any] = {
                "no_time_in_the_database_is_of_a_wrong_clock": await no_time_in_the_database_is_of_a_wrong_clock(db, window),
                "no_time_in_the_topics_is_of_a_wrong_clock": await no_time_in_the_topics_is_of_a_wrong_clock(
                    self.kafka.bootstrap, PREFIX, window
                ),
                "nothing_starts_early_or_late": await nothing_starts_early_or_late(db, self.late_s),
            }
            reached = await timed_runs(db)
        finally:
            await db.close()
        return replace(verdict, violations={**verdict.violations, **more}, reached={**verdict.reached, **reached})
