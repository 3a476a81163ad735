"""Dead letters."""

from datetime import UTC, datetime

from tests.integration.cli.history import History
from tidegate.schemas.queries import dead_letters, inbox
from tidegate.schemas.queries.dead_letters import DeadLetterFilter
from tidegate.schemas.wire.dead_letter import DeadLetter

NOON = datetime(2026, 3, 29, 12, tzinfo=UTC)


def letter(offset: int, reason: str, value: bytes | None, size: int | None = None) -> DeadLetter:
    return DeadLetter(
        topic="tidegate.dataset-updated",
        partition=3,
        offset=offset,
        key=b"lake://flights",
        headers=[("ce_id", str(offset)), ("ce_source", "importer")],
        value=value,
        value_bytes=len(value or b"") if size is None else size,
        reason=reason,
        message="not JSON: unexpected end",
        recorded_at=NOON,
    )


async def written(history: History) -> list[int]:
    """The ids of three dead letters, oldest first."""
    three = [letter(1, "malformed", b"{\x1b[2J"), letter(2, "invalid", b"\xff\xfe"), letter(3, "malformed", None)]
    await history.database.run(inbox.insert_dead_letters, three)
    return await history.database.run(dead_letters.open_ids, DeadLetterFilter())
