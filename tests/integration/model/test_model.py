"""Random lives of DAGs on a real Postgres; after every step all rules hold."""

import os
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest
from anyio.from_thread import BlockingPortal
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests import servers
from tests.integration.engine.world import World, utc
from tests.integration.model.faults import MODEL_FAULTS, NOTICED_BY
from tests.integration.model.machine import Life
from tests.storms.replace import seed_for_now
from tidegate.daemon.postgres.database import connect

LONG = bool(os.environ.get("TEST_LONG"))
EXAMPLES = int(os.environ.get("MODEL_EXAMPLES") or (2_000 if LONG else 10))
STEPS = 60
WITHIN = 200
"""The most lives that a seeded fault survives."""


@pytest.fixture
def watched(portal: BlockingPortal, postgres: str, template: str) -> Iterator[World]:
    """A world whose database keeps the moves of runs and tasks. A crash may lose its last commits: the test does not crash it."""
    name = portal.call(servers.create_database, postgres, template)
    dsn = servers.dsn_of(postgres, name)
    portal.call(_prepare, dsn, name)
    with portal.wrap_async_context_manager(connect(dsn)) as database:
        yield World(database, utc(2024, 5, 1, 12))
    portal.call(servers.drop_database, postgres, name)


async def _prepare(dsn: str, name: str) -> None:
    db = await asyncpg.connect(dsn)
    await db.execute(Path(__file__).with_name("probes.sql").read_text())
    await db.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
    await db.execute("INSERT INTO pool (name, slots) VALUES ('small', 2)")
    await db.close()


@pytest.mark.long
@pytest.mark.timeout(7200 if LONG else 900)
def test_the_rules_hold_after_every_step(portal: BlockingPortal, watched: World) -> None:
    live(portal, watched, EXAMPLES)


def live(portal: BlockingPortal, world: World, lives: int) -> None:
    """Raises AssertionError at the first step after which a rule does not hold."""
    machine = type("Life", (Life,), {"portal": portal, "world": world})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=lives,
            stateful_step_count=STEPS,
            deadline=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.long
@pytest.mark.skipif(not LONG, reason="takes up to a minute for each fault: make test-long")
@pytest.mark.parametrize("fault", MODEL_FAULTS)
def test_a_seeded_fault_is_noticed(fault: str, portal: BlockingPortal, watched: World, monkeypatch: pytest.MonkeyPatch) -> None:
    seed_for_now(MODEL_FAULTS[fault], monkeypatch)

    with pytest.raises(AssertionError, match=NOTICED_BY[fault]):
        live(portal, watched, WITHIN)
