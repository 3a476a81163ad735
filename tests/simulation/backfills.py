"""What must be true of backfills, beside runs that events make: of every commit, and when all is at rest."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tests.backfill_rules import BROKEN, MISCOUNTED
from tests.simulation.dags import PAST
from tests.simulation.statements import occupies, writes

if TYPE_CHECKING:
    from tests.simulation.scheduler import Done
    from tests.simulation.world import World

RUNNING = """
    SELECT id, CASE WHEN state IN ('planned', 'running') AND stop_reason = '' THEN max_active_runs ELSE 0 END,
        (SELECT count(*) FROM dag_run WHERE backfill_id = backfill.id AND state = 'running')
    FROM backfill
"""


async def no_backfill_starts_more_than_it_may(world: "World", done: "Done") -> Iterable[str]:
    """A limit that was lowered, a pause and a stop leave running runs as they are, and let no other start."""
    if world.plan.group != PAST or not any(occupies(sql) for sql, _ in done):
        return []
    found = []
    for id_, allowed, running in await world.server.ask(RUNNING):
        if running > max(allowed, world.backfill_runs[id_]):
            found.append(f"backfill {id_} has {running} running runs of {allowed}")
        world.backfill_runs[id_] = running
    return found


async def the_counts_of_backfills_are_those_of_their_dates(world: "World", done: "Done") -> Iterable[str]:
    if world.plan.group != PAST or not any(writes(sql) and "backfill" in sql for sql, _ in done):
        return []
    return [f"backfill {row[0]}: {list(row)[1:]}" for row in await world.server.ask(MISCOUNTED)]


async def each_date_has_one_run_or_one_reason(world: "World") -> Iterable[str]:
    if world.plan.group != PAST:
        return []
    return [f"{name}: {list(row)}" for name, sql in BROKEN.items() for row in await world.server.ask(sql)]
