"""A storm in which a part of all that comes in is hostile: records, files, stored versions, commands, and tasks."""

import time
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import asyncpg
from msgspec.structs import replace

from tests.storms import records
from tests.storms.checker import Verdict
from tests.storms.evidence import Evidence
from tests.storms.hostile import invariants
from tests.storms.hostile.intruder import Intruder, Intrusion
from tests.storms.hostile.pipelines import HOSTILE_DAGS, HOT, POOLS, SPOILED, files
from tests.storms.hostile.records import DATASET_KINDS
from tests.storms.meddler import Note
from tests.storms.records import BEGIN, Planned
from tests.storms.settings import PREFIX
from tests.storms.storm import Plan, Storm
from tidegate.events import topics
from tidegate.schemas.wire.event import Kind

HERE = Path(__file__).parent

RUN_EVENTS = 300
SETTINGS: Mapping[str, object] = {"parse_wall_s": 6, "parse_cpu_s": 1, "parse_memory_mb": 256}


class HostilePlan(Plan, frozen=True, kw_only=True):
    """`bad` are hostile records; `hot` events come to the DAG of very many, `spoils` to the one whose tasks spoil their files."""

    intrusion: Intrusion
    hot: int = 0
    spoils: int = 0

    def records(self, random: Random) -> list[Planned]:
        planned = records.plan(random, self.events, self.again_share, self.bad, self.inputs, DATASET_KINDS)
        for dataset, count in ((HOT, self.hot), (SPOILED, self.spoils)):
            for number in range(count):
                at = BEGIN + timedelta(milliseconds=number)
                planned.insert(random.randrange(len(planned) + 1), records.event(number, at, dataset, dataset))
        return planned


class HostileStorm(Storm):
    plan: HostilePlan
    intruder: Intruder

    def __init__(self, plan: HostilePlan, home: Path, cache: Path, seed: int) -> None:
        self._end = time.time() + plan.timed_s
        more = {
            "files": {**plan.files, **files(home, self._end)},
            "dags": plan.dags + HOSTILE_DAGS,
            "run_events": RUN_EVENTS,
            "settings": {**SETTINGS, **plan.settings},
            "arguments": [*plan.arguments, "--local"],
        }
        super().__init__(replace(plan, **more), home, cache, seed)

    async def _set_up(self, db: "asyncpg.Connection[asyncpg.Record]") -> None:
        await super()._set_up(db)
        await db.execute((HERE / "probes.sql").read_text())
        await db.executemany("INSERT INTO pool (name, slots) VALUES ($1, $2)", POOLS.items())

    async def _intrude(self, note: Note) -> None:
        servers = {"postgres_dsn": self.postgres.dsn, "kafka_servers": self.kafka.bootstrap}
        self.intruder = Intruder(
            Random(self.seed),
            self.home / "dags",
            self._end,
            note,
            dsn=self.postgres.dsn,
            servers=self.kafka.bootstrap,
            topic=topics.name(PREFIX, Kind.TASK_FINISHED),
            run_events=RUN_EVENTS,
            env={**servers, "topic_prefix": PREFIX, "run_events": str(RUN_EVENTS)},
        )
        await self.intruder.intrude(self.plan.intrusion)

    async def _withdraw(self) -> None:
        await self.intruder.withdraw()

    async def _verdict(self, evidence: Evidence) -> Verdict:
        mine = {tuple(row[1:]): row[0] for row in await evidence.db.fetch("SELECT id, dag_id, run_id FROM dag_run")}
        cleared = {mine[run] for run in self.intruder.cleared if run in mine}
        evidence = replace(evidence, cleared=evidence.cleared | cleared)
        verdict = await super()._verdict(evidence)
        more: dict[str, Any] = {
            "nothing_reaches_the_net": await invariants.nothing_reaches_the_net(evidence),
            "each_hold_is_told_once": await invariants.each_hold_is_told_once(evidence),
            "no_incident_is_told_at_each_try": await invariants.no_incident_is_told_at_each_try(evidence),
            "no_dag_stays_held": await invariants.no_dag_stays_held(evidence),
            "runs_stay_in_their_number_of_events": await invariants.runs_stay_in_their_number_of_events(evidence, RUN_EVENTS),
            "the_errors_are_the_bad_files": await invariants.the_errors_are_the_bad_files(evidence, self.intruder),
            "commands_are_answered_right": await invariants.commands_are_answered_right(evidence, self.intruder),
            "spoiling_attempts_ran_once": await invariants.spoiling_attempts_ran_once(evidence, self.home / "ran"),
        }
        met = await invariants.reached(evidence, self.intruder)
        return replace(verdict, violations={**verdict.violations, **more}, reached={**verdict.reached, **met})
