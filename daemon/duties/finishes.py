"""The ends of attempts that this daemon reports. Their runners may report them, too: by the same event id, so they count once."""

from collections.abc import Sequence
from uuid import UUID

from tidegate.daemon.context import Context
from tidegate.schemas.wire.event import FINISH_SOURCE, EventId, TaskFinished


def finish_id(submission_id: UUID) -> EventId:
    """The id of the event that ends an attempt."""
    return EventId(FINISH_SOURCE, str(submission_id))


async def submit_finishes(context: Context, ends: Sequence[TaskFinished]) -> None:
    """Report the ends, if there are any. Raises UnavailableError."""
    if ends:
        await context.submit_messages(ends, [finish_id(end.submission_id) for end in ends])
