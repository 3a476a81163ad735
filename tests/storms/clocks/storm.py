"""A storm in which the clocks of daemons are wrong by ten minutes, or jump; that of Postgres is right."""

import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

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
from tests.storms.clocks.pipelines import files
from tests.storms.settings import PREFIX
from tests.storms.storm import Plan, Storm

CLOCK = "SELECT clock_timestamp()"


class ClocksPlan(Plan, frozen=True, kw_only=True):
    """`clocks` says of each daemon how wrong its clock is, as `clock.py` reads it. Timed runs come for `timed_s`."""

    clocks: Mapping[str, str]
    timed_s: float


class ClocksStorm(Storm):
    plan: ClocksPlan

    def __init__(self, plan: ClocksPlan, home: Path, cache: Path, seed: int) -> None:
        super().__init__(replace(plan, files=files(time.time() + plan.timed_s)), home, cache, seed)
        self._began_at: datetime | None = None

    def _arguments(self, name: str) -> list[str]:
        return [*super()._arguments(name), f"--clock={self.plan.clocks[name]}"]

    async def _set_up(self, db: "asyncpg.Connection[asyncpg.Record]") -> None:
        await super()._set_up(db)
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
                "nothing_starts_early_or_late": await nothing_starts_early_or_late(db),
            }
            reached = await timed_runs(db)
        finally:
            await db.close()
        return replace(verdict, violations={**verdict.violations, **more}, reached={**verdict.reached, **reached})
