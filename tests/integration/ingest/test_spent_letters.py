"""Dead letters have an age and a size: the oldest go, closed ones before open ones, and none that waits to be sent."""

from collections.abc import Sequence
from random import Random
from typing import Any

import msgspec
import pytest

from tests.integration.ingest.intake import Intake, Sent
from tidegate.daemon.duties.spent_letters import expire_dead_letters, shrink_dead_letters
from tidegate.schemas.queries import dead_letters
from tidegate.schemas.wire.event import Kind

BROKEN = Sent(Random(1).randbytes(600_000))
"""Postgres compresses no such record."""


async def refused(intake: Intake, records: int) -> Sequence[int]:
    """The dead letters of broken records, which are sent to Kafka."""
    await intake.take(Kind.DATASET_UPDATED, *[BROKEN] * records)
    await intake.relay(Kind.DEAD_LETTER)
    return [letter["id"] for letter in await intake.letters()]


async def discard(intake: Intake, *ids: int) -> None:
    async def work(db: Any) -> list[int]:
        return await dead_letters.discard(db, ids, "somebody", "")

    await intake.database.run(work)


async def left(intake: Intake) -> list[int]:
    return [letter["id"] for letter in await intake.letters()]


async def test_the_oldest_go_when_all_take_too_much_and_closed_ones_first(intake: Intake) -> None:
    context = msgspec.structs.replace(intake.context, settings=msgspec.structs.replace(intake.settings, dead_letter_mb=2))
    ids = await refused(intake, 6)
    await discard(intake, ids[3])

    await shrink_dead_letters(context)
    await shrink_dead_letters(context)

    assert await left(intake) == [ids[2], *ids[4:]]


async def test_a_letter_that_waits_to_be_sent_stays(intake: Intake) -> None:
    context = msgspec.structs.replace(intake.context, settings=msgspec.structs.replace(intake.settings, dead_letter_mb=0))
    await intake.take(Kind.DATASET_UPDATED, BROKEN, BROKEN)
    waiting = await left(intake)
    await intake.rows("UPDATE dead_letter SET received_at = received_at - interval '1 year' RETURNING id")

    await shrink_dead_letters(context)
    await expire_dead_letters(context)
    kept = await left(intake)
    await intake.relay(Kind.DEAD_LETTER)
    await expire_dead_letters(context)

    assert (kept, await left(intake)) == (waiting, [])


@pytest.mark.parametrize(
    ("received", "closed", "stays"), [(91, None, False), (89, None, True), (200, 89, True), (200, 91, False)]
)
async def test_a_letter_goes_ninety_days_after_it_came_or_was_closed(
    intake: Intake, received: int, closed: int | None, stays: bool
) -> None:
    (id_,) = await refused(intake, 1)
    if closed:
        await discard(intake, id_)
    age = "UPDATE dead_letter SET received_at = now() - make_interval(days => $1), closed_at = now() - make_interval(days => $2)"
    await intake.rows(f"{age} RETURNING id", received, closed)

    await expire_dead_letters(intake.context)

    assert (await left(intake) == [id_]) == stays
