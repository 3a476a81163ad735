"""When nothing goes wrong any more, all of it must come to an end."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tests.simulation.dags import PAST
from tests.simulation.spark import Application
from tidegate.daemon.spark.contract import Phase

if TYPE_CHECKING:
    from tests.simulation.world import World

RENEWAL = 0.42
"""Of the time to live of leases: after that they are renewed, and have not lapsed.

A renewal begins after 0.4 of it, and is answered at the end of the next of these. That is within the half of it in which a daemon
knows that the leases are its own."""

ROUNDS = 60
"""So often time passes at most until all is at rest."""

IDLE_ROUNDS = (1, 2)
"""What is left after the first round waits for leases to lapse: until then daemons renew theirs, and do nothing else."""

CRASHING = 0.25
"""Daemons that are killed when all comes to rest; the others are stopped."""

DOOMED = "SELECT submission_id FROM submission WHERE desired_state = 'kill' AND ended_at IS NULL"

OPEN = """
    SELECT what FROM (
        SELECT 'run ' || run_id || ' is ' || state AS what FROM dag_run WHERE state IN ('queued', 'running')
        UNION ALL SELECT 'backfill ' || id || ' is ' || state FROM backfill WHERE state NOT IN ('cancelled', 'success', 'failed')
        UNION ALL SELECT 'outbox ' || id FROM outbox
        UNION ALL SELECT 'run to reconsider ' || dag_run_id FROM run_to_reconsider
        UNION ALL SELECT 'deferred DAG ' || dag_id FROM deferred_dag
        UNION ALL SELECT 'deferred end ' || id FROM deferred_end
        UNION ALL SELECT 'attempt ' || submission_id || ' is ' || state FROM submission WHERE ended_at IS NULL
        UNION ALL SELECT key || ' stands at ' || next_offset
            FROM lease JOIN unnest($1::text[], $2::bigint[]) AS log (partition, ends) ON partition = key
            WHERE kind = 'partition' AND next_offset <> ends
    ) AS left_over
"""


async def come_to_rest(world: "World") -> Sequence[str]:
    """What is left open after a long time: nothing, if all is well."""
    world.frozen.clear()
    world.parted.clear()
    world.scheduler.tell("from here on nothing goes wrong")
    if world.plan.alone:
        await _leave_one(world)
    left: Sequence[str] = ()
    for number in range(ROUNDS):
        if number in IDLE_ROUNDS:
            await world.run_those(lambda step: step.binding or step.place.duty == "leases")
        else:
            await _work(world)
            left = await left_open(world)
            if not left:
                break
        await world.scheduler.pass_time(RENEWAL * world.plan.ttl_s)
    return left


async def _leave_one(world: "World") -> None:
    for daemon in world.chance.sample(world.alive, len(world.alive) - 1):
        await (world.crash(daemon) if world.chance.random() < CRASHING else world.stop(daemon))


async def _work(world: "World") -> None:
    """Do all that can be done now."""
    await world.run_those(lambda _: True)
    if ending := await _ending(world):
        while still := [application for application in ending if application.phase is Phase.RUNNING]:
            await world.end_application(still)
        await world.run_those(lambda _: True)
    if world.plan.group == PAST:
        await world.user.resume_all()
        await world.scheduler.settle()


async def _ending(world: "World") -> list[Application]:
    """The applications that end by themselves. A lasting one whose kill is requested does not."""
    running, lasting = world.cluster.running, world.cluster.lasting
    if not any(application.key in lasting for application in running):
        return running
    doomed = {row[0] for row in await world.server.ask(DOOMED)}
    return [application for application in running if application.key not in lasting or application.stamp not in doomed]


async def left_open(world: "World") -> Sequence[str]:
    """What the daemons have yet to do, and the requests that the cluster has yet to get.

    Postgres is asked again when something was committed or sent since.
    """
    logs = [(f"{p.topic}/{p.partition}", world.kafka.end(p)) for p in list(world.kafka.logs)]
    keys, ends = zip(*logs, strict=True) if logs else ((), ())
    late = ["a late request" for handle in world.late if not handle.cancelled() and handle.when() > world.loop.time()]
    state = (world.scheduler.writes, ends)
    if world.open_at is None or world.open_at[0] != state:
        world.open_at = state, [row[0] for row in await world.server.ask(OPEN, list(keys), list(ends))]
    return [*world.open_at[1], *late]
