"""Where the relay reads the outbox from: past the rows that were deleted, and never past one that is still to come."""

import json
from collections.abc import Collection, Mapping

import pytest
from structlog.testing import capture_logs

from tests.integration.ingest.intake import Intake
from tests.transactions import transaction
from tidegate.daemon.duties import relay
from tidegate.daemon.postgres import low_watermark
from tidegate.schemas.queries import outbox
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.outbox import OutboxRow, Seen, UnreadableRow
from tidegate.schemas.wire.event import Kind

WRITE = """
    INSERT INTO outbox (shard, kind, key, event_id, time, payload)
    SELECT $2, 'dag-run-state', 'd/r', $1 || '/' || n, now(), convert_to(json_build_object('name', $1)::text, 'UTF8')
    FROM generate_series(1, $3) AS n
"""
SHARD = outbox.shard("d/r")


@pytest.fixture(autouse=True)
def writers_looked_at_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(low_watermark, "ADVANCE_EVERY_S", 0.0)


async def names(intake: Intake) -> list[str]:
    """What has been told so far."""
    return [json.loads(record.value or b"")["name"] for record in await intake.relay(Kind.DAG_RUN_STATE)]


async def write(intake: Intake, name: str, rows: int = 1) -> None:
    async with transaction(intake.settings.postgres_dsn) as db:
        await db.execute(WRITE, name, SHARD, rows)


async def test_what_is_committed_late_is_sent_late(intake: Intake) -> None:
    async with transaction(intake.settings.postgres_dsn) as db:
        await db.execute(WRITE, "late", SHARD, 1)
        for name in ("a", "b", "c"):
            await write(intake, name)
            told = await names(intake)

    assert told == ["a", "b", "c"]
    assert await names(intake) == ["a", "b", "c", "late"]


async def test_rows_that_nothing_may_remove_are_not_gone_through(intake: Intake, monkeypatch: pytest.MonkeyPatch) -> None:
    read_from: list[int] = []
    next_rows = outbox.next_rows

    async def noted(
        db: Db, held: Mapping[int, int], lowest: int, limit: int, without: Collection[int], *among: Seen
    ) -> list[OutboxRow | UnreadableRow]:
        read_from.append(lowest)
        return await next_rows(db, held, lowest, limit, without, *among)

    monkeypatch.setattr(outbox, "next_rows", noted)
    async with transaction(intake.settings.postgres_dsn) as other:
        await other.execute("SELECT pg_current_xact_id()")
        for name in ("a", "b", "c"):
            await write(intake, name, rows=50)
            await names(intake)

        assert len(await names(intake)) == 150
        assert (read_from[0], read_from[-1] > 50) == (0, True)


@pytest.mark.parametrize("batch", [relay.MAX_BATCH, 2])
async def test_rows_that_cannot_be_published_delay_no_others(intake: Intake, monkeypatch: pytest.MonkeyPatch, batch: int) -> None:
    """A later version of Tidegate wrote the first one; the others were damaged, and may fill a batch."""
    monkeypatch.setattr(relay, "MAX_BATCH", batch)
    await write(intake, "strange", rows=3)
    async with transaction(intake.settings.postgres_dsn) as db:
        await db.execute("UPDATE outbox SET kind = 'pool-state' WHERE event_id = 'strange/1'")
        await db.execute("UPDATE outbox SET kind = 'task-state', event_id = 'd/r/tasks/x' WHERE event_id = 'strange/2'")
        await db.execute("UPDATE outbox SET payload = convert_to(repeat('x', 1 << 20), 'UTF8') WHERE event_id = 'strange/3'")
    await write(intake, "a")

    with capture_logs() as logged:
        assert await names(intake) == ["a"]
        await write(intake, "b")
        assert await names(intake) == ["a", "b"]

    assert [entry["reason"] for entry in logged if entry["event"] == "outbox_row_unreadable"] == [
        "invalid literal for int() with base 10: 'x'",
        "its record is larger than 1047552 bytes",
    ]
    assert len(await intake.rows("SELECT id FROM outbox")) == 3


@pytest.mark.parametrize("time", ["infinity", "4713-01-01 BC", "294276-12-31Z"])
async def test_a_time_out_of_the_calendar_is_published_as_its_nearest(intake: Intake, time: str) -> None:
    await write(intake, "a")
    async with transaction(intake.settings.postgres_dsn) as db:
        await db.execute(f"UPDATE outbox SET time = '{time}'")

    assert await names(intake) == ["a"]
