"""What is wrong with an installation."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest

from tidegate.daemon.read_model.system import System, problems, verdict
from tidegate.schemas.queries.counting import COUNTED
from tidegate.schemas.queries.holds import HeldDag
from tidegate.schemas.queries.leases import Incident, Terms
from tidegate.schemas.queries.losses import LossRow
from tidegate.schemas.queries.pools import NarrowPool
from tidegate.schemas.queries.system_pages import DaemonLine, LeaseLine, RelayLine, ServerLine, UnconfirmedKill, UnknownCluster
from tidegate.schemas.text import utc

NOW = datetime(2026, 1, 1, tzinfo=UTC)
AT = utc(NOW)
DAEMON = DaemonLine("h", 1, NOW, NOW, Terms(), {}, UUID(int=1), "1.0", ())
HEALTHY = System(now=NOW, daemons=(DAEMON,), server=ServerLine(version="18", database="t", is_standby=False, bytes=0))
NEWER = msgspec.structs.replace(DAEMON, version="1.1")


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ({}, []),
        ({"daemons": ()}, ["no daemon is alive"]),
        ({"daemons": (DAEMON, NEWER)}, ["daemons of the versions 1.0, 1.1"]),
        ({"leases": (LeaseLine("clock", "", 16, 16, 0, None),)}, []),
        ({"leases": (LeaseLine("partition", "t", 12, 9, 2, 0),)}, ["1 lease has no daemon"]),
        ({"leases": (LeaseLine("partition", "t", 12, 0, 0, 0),)}, ["12 leases have no daemon"]),
        ({"leases": (LeaseLine("partition", "t", 12, 0, 0, 0),), "daemons": ()}, ["no daemon is alive"]),
        ({"missing": ["0009_x.sql"]}, ["the database schema lacks 0009_x.sql"]),
        ({"relay": RelayLine(1, NOW - timedelta(seconds=59))}, []),
        (
            {"relay": RelayLine(1, NOW - timedelta(minutes=5))},
            ["an event waits for 5m00s to be published: Kafka is away, or it is damaged"],
        ),
        ({"missing_pools": {"reprots": 1}}, ["1 task waits for the pool 'reprots', which does not exist; `tidegate pools set"]),
        ({"missing_pools": {"reprots": COUNTED}}, ["10,000+ tasks wait for the pool 'reprots', which"]),
        (
            {"narrow_pools": (NarrowPool("no reports", 0, 3, 2),)},
            [
                "3 tasks wait for the pool 'no reports', which has 0 slots in all, and one of them needs 2;"
                " `tidegate pools set 'no reports' 2` lets them go on"
            ],
        ),
        (
            {"held_dags": (HeldDag("flights", NOW, "it cannot be read"),)},
            [
                f"DAG 'flights' is held since {AT}, so that its runs wait: it cannot be read;"
                " correct it, then `tidegate dags release flights`"
            ],
        ),
        ({"broken_files": 2}, ["2 DAG files are broken; `tidegate dags errors` says why"]),
        ({"dead_letters": 1}, ["1 dead letter is open: records that could not be handled; `tidegate deadletters list` says why"]),
        (
            {"losses": (LossRow(3, NOW, NOW, "2", NOW, "d", None, None, None),)},
            [f"Postgres has lost commits of {AT} to {AT}; check that time, then `tidegate losses settle 3 --because TEXT`"],
        ),
        (
            {"unknown_clusters": (UnknownCluster("nightly", "spark-submit", 2),)},
            [
                "2 tasks wait for the master of cluster 'nightly', which no host knows;"
                " add it to TIDEGATE_SPARK_CLUSTERS of a host, and restart its daemon"
            ],
        ),
        (
            {"unconfirmed": (UnconfirmedKill("d", "r", "load", 3, "killed on request; its application on YARN may go on"),)},
            ["task load[3] of d r may go on: killed on request; its application on YARN may go on; look there, and end it"],
        ),
        ({"halted": (Incident("t/1", 3, 5, 9),)}, ["t/1 is not read: its next offset 3 is outside its log of 5 to 9"]),
        ({"halted": (Incident("t/1", 9, 5, 9),)}, ["t/1 is not read: its next offset 9 is outside"]),
        ({"halted": (Incident("t/1", 5, 5, 9),)}, ["t/1 is not read: the records at its next offset 5 cannot be decoded"]),
    ],
)
def test_each_problem_is_a_sentence(facts: dict[str, Any], says: list[str]) -> None:
    found = list(problems(msgspec.structs.replace(HEALTHY, **facts)))

    assert [problem[: len(start)] for problem, start in zip(found, says, strict=True)] == says


@pytest.mark.parametrize(
    ("facts", "problems", "says"),
    [
        ({}, 0, "all well: 1 daemon is alive; 0 events wait to be published; no dead letter is open"),
        (
            {"leases": (LeaseLine("clock", "", 16, 16, 0, None), LeaseLine("partition", "t", 12, 12, 0, 0)), "dead_letters": 2},
            1,
            "1 problem: 1 daemon is alive; all 28 leases have one; 0 events wait to be published; 2 dead letters are open",
        ),
        (
            {"leases": (LeaseLine("partition", "t", 12, 9, 2, 0),), "relay": RelayLine(1, NOW), "dead_letters": 10_001},
            2,
            "2 problems: 1 daemon is alive; 9 of 12 leases have one; 1 event waits to be published;"
            " 10,000+ dead letters are open",
        ),
    ],
)
def test_the_verdict_is_one_line(facts: dict[str, Any], problems: int, says: str) -> None:
    assert verdict(msgspec.structs.replace(HEALTHY, **facts), problems) == says
