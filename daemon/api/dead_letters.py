"""Dead letters: records that could not be processed."""

from typing import Annotated

from msgspec import Meta

from tidegate.daemon.dead_letters import Changes
from tidegate.daemon.gateway.commands import with_operations
from tidegate.daemon.gateway.cursor import Page
from tidegate.daemon.gateway.endpoint import Act, Call, Params, Read
from tidegate.daemon.gateway.lists import Id, Listed, Time, newest_first
from tidegate.daemon.permissions import Right
from tidegate.daemon.read_model.dead_letter import Change, DeadLetterPage, ListedState, Outcome, Refused, read_dead_letter_page
from tidegate.schemas.queries import dead_letters
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.dead_letters import DeadLetterFilter, DeadLetterRow, DeadLetterState
from tidegate.schemas.text import reason_problem
from tidegate.schemas.wire.event import Rejection

NEWEST = newest_first("dead letters")

Ids = Annotated[tuple[Id, ...], Meta(min_length=1, max_length=1000)]


class DeadLetterList(Listed, frozen=True):
    """The dead letters, or some of them."""

    state: Annotated[ListedState, Meta(description="Only dead letters in this state.")] = ListedState.OPEN
    reason: Annotated[Rejection | None, Meta(description="Only records that were rejected for this reason.")] = None
    topic: Annotated[str | None, Meta(description="Only records of this topic.")] = None
    since: Annotated[Time | None, Meta(description="Only records that were received at this time or later.")] = None
    until: Annotated[Time | None, Meta(description="Only records that were received at this time or earlier.")] = None


class DeadLetterPath(Params, frozen=True):
    """A dead letter by its number."""

    id: Annotated[Id, Meta(description="The number of the dead letter.")]


class Replay(Params, frozen=True):
    """The dead letters to replay."""

    ids: Ids


class WithReason(Params, frozen=True):
    """A change that the audit log records with a reason."""

    because: str

    def __post_init__(self) -> None:
        """Raises ValueError for a reason that is empty or too long."""
        super().__post_init__()
        if problem := reason_problem(self.because):
            raise ValueError(f"because: {problem}")


class Discard(WithReason, frozen=True):
    """The dead letters to discard, and why they are not needed."""

    ids: Ids


async def list_dead_letters(db: Db, call: Call[DeadLetterList]) -> Page[DeadLetterRow]:
    """List dead letters, newest first."""
    params = call.params
    chosen = DeadLetterFilter(params.reason, params.topic, params.since, params.until)
    state = None if params.state is ListedState.ALL else DeadLetterState(params.state)
    return NEWEST.page(await dead_letters.list_dead_letters(db, state, chosen, params.limit + 1, NEWEST.first(params)), params)


async def show_dead_letter(db: Db, call: Call[DeadLetterPath]) -> DeadLetterPage:
    """Show a dead letter with its headers and value. What is not UTF-8 is base64, and `…_encoding` says so."""
    return await read_dead_letter_page(db, call.params.id)


async def replay_dead_letters(call: Call[Params], body: Replay) -> Outcome:
    """Send records to their topics again, unchanged and as the same events. Each is replayed once."""
    return await _change(call, Change.REPLAY, body.ids)


async def discard_dead_letters(call: Call[Params], body: Discard) -> Outcome:
    """Close dead letters without replaying them; they can still be shown."""
    return await _change(call, Change.DISCARD, body.ids, body.because)


async def _change(call: Call[Params], change: Change, ids: tuple[int, ...], because: str = "") -> Outcome:
    changes = Changes(call.settings, call.caller.username, change, because)
    outcome = await changes.apply(call.database, list(dict.fromkeys(ids)))
    outcome.refused = [Refused(refused.id, with_operations(refused.why)) for refused in outcome.refused]
    return outcome


ENDPOINTS = (
    Read("/dead-letters", Right.VIEW, list_dead_letters, DeadLetterList, Page[DeadLetterRow]),
    Read("/dead-letters/{id}", Right.VIEW, show_dead_letter, DeadLetterPath, DeadLetterPage),
    Act(
        "POST",
        "/dead-letters/replay",
        Right.OPERATE,
        replay_dead_letters,
        Params,
        Replay,
        Outcome,
        does="replayed dead letters",
        about=(),
    ),
    Act(
        "POST",
        "/dead-letters/discard",
        Right.OPERATE,
        discard_dead_letters,
        Params,
        Discard,
        Outcome,
        does="discarded dead letters",
        about=(),
    ),
)
