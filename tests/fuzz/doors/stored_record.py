"""A record that is stored in a real Postgres: its event is there, or its dead letter, and the DAGs that it starts work."""

from collections.abc import Sequence
from uuid import UUID

from hypothesis import strategies as st

from tests.fuzz.doors.damaged_row import Opened, world_of
from tests.fuzz.doors.door import Door
from tests.fuzz.records import ATTEMPTS, Sent, records
from tests.fuzz.small_world import SmallWorld, attempt_of
from tests.tokens import token_of
from tidegate.schemas.wire.event import Kind

LETTERS = "SELECT reason, message FROM dead_letter"
HELD = "SELECT dag_id, hold_reason FROM dag WHERE held_since IS NOT NULL"
RUNS = "SELECT state::text FROM dag_run WHERE dag_id = 'good' ORDER BY id"


def enter(given: tuple[Kind, Sequence[Sent]], opened: Opened) -> None:
    opened.portal.call(_enter, *given, opened.world)


async def _enter(kind: Kind, sent: Sequence[Sent], world: SmallWorld) -> None:
    async with world.undone():
        attempt = await attempt_of(world, "each")
        await world.take(kind, *(_about(each, attempt) for each in sent))
        assert [letter for letter in await world.rows(LETTERS) if letter[0] == "unprocessable"] == []
        assert await world.rows(HELD) == []
        await world.work()
        await world.work()
        await world.sweep()
        assert await world.rows(HELD) == []
        assert not world.context.outages.away, world.context.outages.away
        assert {state for (state,) in await world.rows(RUNS)} == {"success"}


def _about(sent: Sent, attempt: UUID) -> Sent:
    """The record, about an attempt of the world where it is about one."""
    if sent.value is None:
        return sent
    proven = sent.value.replace(b'"right"', f'"{token_of(attempt)}"'.encode())
    return sent._replace(value=proven.replace(str(ATTEMPTS[0]).encode(), str(attempt).encode()))


INPUTS = st.sampled_from((Kind.DATASET_UPDATED, Kind.DATASET_UPDATED, Kind.TASK_FINISHED)).flatmap(
    lambda kind: st.tuples(st.just(kind), st.lists(records(kind), min_size=1, max_size=4))
)
DOOR = Door(INPUTS, enter, share=10, surroundings=world_of, in_suite=7, needs_postgres=True)
