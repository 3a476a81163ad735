"""What hostile inputs cost healthy DAGs: `python -m tests.storms.hostile.latency [--pairs N] [--seed N]`.

Each pair is a calm time and a hostile one, on servers of their own and with no other trouble. An event of a healthy DAG makes one
run, whose task starts at once; the figures are from when its producer sent it.
"""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import ClassVar

import anyio
import msgspec
from msgspec.structs import replace

from tests.storms import records
from tests.storms.checker import Verdict
from tests.storms.evidence import Evidence, read_all
from tests.storms.hostile.intruder import Intrusion
from tests.storms.hostile.storm import HostilePlan, HostileStorm
from tests.storms.nemesis import Misery
from tests.storms.pipelines import FILES
from tests.storms.records import BEGIN, Planned
from tests.storms.settings import PREFIX
from tests.storms.storm import new_home, seed
from tidegate.daemon.standalone.jars import cache_of
from tidegate.events import topics
from tidegate.schemas.wire.event import Kind

HEALTHY = 40
SOURCE = "storm/healthy"
WARM_UP_S = 10.0

HEALTHY_FILE = """\
from tidegate import Dag, Dataset

for i in range(40):
    with Dag(f"healthy_{i}", schedule=Dataset(f"storm://healthy/{i}"), max_active_runs=16) as dag:
        dag.command("work", ["work"])
"""

CREATED = """
SELECT event.event_id, run.id, run.created_at, min(submission.submission_id::text) AS stamp
FROM dataset_event AS event
JOIN dagrun_dataset_event AS consumed ON consumed.dataset_event_id = event.id
JOIN dag_run AS run ON run.id = consumed.dag_run_id
JOIN submission ON submission.dag_run_id = run.id AND submission.try_number = 1
WHERE event.source = $1
GROUP BY event.event_id, run.id
"""

STEADY: Mapping[str, object] = dict.fromkeys(
    ("slow_share", "request_lost_share", "answer_lost_share", "untold_share", "unknown_share", "fail_share"), 0.0
)
"""A cluster that is no reason for anything to take longer."""


class LatencyPlan(HostilePlan, frozen=True, kw_only=True):
    """`healthy` events of healthy DAGs are sent beside the others."""

    healthy: int

    def records(self, random: Random) -> list[Planned]:
        planned = super().records(random)
        for number in range(self.healthy):
            at = BEGIN + timedelta(milliseconds=number)
            event = records.event(number, at, f"storm://healthy/{number % HEALTHY}", SOURCE)
            planned.insert(random.randrange(len(planned) + 1), event)
        return planned


CALM = LatencyPlan(
    events=600,
    healthy=1_200,
    bad=0,
    send_s=45,
    slots=100,
    files={**FILES, "healthy.py": HEALTHY_FILE},
    dags=50 + HEALTHY,
    misery=Misery(),
    intrusion=Intrusion(within_s=44),
    script=STEADY,
    timed_s=50,
)

HOSTILE = replace(
    CALM,
    bad=20,
    hot=200,
    spoils=1,
    intrusion=Intrusion(files=7, damages=3, clears=2, forgeries=2, commands=1, requests=2, within_s=40),
)
"""Of 2,000 records, 45 things that come in are hostile: 30 records, seven files, and what else there is."""


class Delays(msgspec.Struct, frozen=True):
    """Seconds since their events were sent, each in order."""

    created: Sequence[float]
    started: Sequence[float]

    def row(self) -> str:
        figures = [1000 * at(delays, share) for delays in (self.created, self.started) for share in (0.5, 0.99)]
        return " | ".join(f"{figure:.0f} ms" for figure in figures)


def at(delays: Sequence[float], share: float) -> float:
    return delays[min(len(delays) - 1, int(share * len(delays)))]


class LatencyStorm(HostileStorm):
    at_once: ClassVar[int] = 1
    delays: Delays

    async def _verdict(self, evidence: Evidence) -> Verdict:
        self.delays = await delays_of(evidence, self.kafka.bootstrap)
        return await super()._verdict(evidence)


async def delays_of(evidence: Evidence, servers: str) -> Delays:
    """Of all events of healthy DAGs after the first seconds."""
    sent: dict[str, datetime] = {}
    async for record in read_all(servers, topics.name(PREFIX, Kind.DATASET_UPDATED), {}):
        said = dict(record.headers)
        if said.get("ce_source") == SOURCE.encode():
            sent.setdefault(said["ce_id"].decode(), datetime.fromtimestamp(record.timestamp / 1000, UTC))
    begin = min(sent.values()) + timedelta(seconds=WARM_UP_S)
    accepted = {entry.stamp: entry.at for entry in evidence.journal if entry.what == "accepted"}
    rows = [row for row in await evidence.db.fetch(CREATED, SOURCE) if sent[row["event_id"]] >= begin]
    return Delays(
        sorted((row["created_at"] - sent[row["event_id"]]).total_seconds() for row in rows),
        sorted((accepted[row["stamp"]] - sent[row["event_id"]]).total_seconds() for row in rows),
    )


async def main(chosen: Namespace) -> int:
    cache, broken, ratios = cache_of({}), False, []
    for pair in range(chosen.pairs):
        found: list[Delays] = []
        for name, plan in (("calm", CALM), ("hostile", HOSTILE)):
            storm = LatencyStorm(plan, new_home(), cache, chosen.seed + pair)
            verdict = await storm.run()
            broken |= bool(verdict.broken)
            found.append(storm.delays)
            sys.stdout.write(f"| {pair + 1} | {name} | {storm.delays.row()} | {len(storm.delays.created)} |\n")
            if verdict.broken:
                sys.stdout.write(storm.report(verdict) + "\n")
            sys.stdout.flush()
        calm, hostile = found
        ratios.append(at(hostile.started, 0.99) / at(calm.started, 0.99))
        sys.stdout.write(f"| {pair + 1} | ratio of the 99 % | {ratios[-1]:.2f} |\n")
    return 1 if broken or max(ratios) > 2 else 0


def read(parser: ArgumentParser) -> Namespace:
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=seed())
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(anyio.run(main, read(ArgumentParser(description=__doc__))))
