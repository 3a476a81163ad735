"""Replay and discard dead letters: one, or all open ones of a filter."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from tidegate.daemon.api.dead_letters import Ids, WithReason
from tidegate.daemon.dead_letters import Changes
from tidegate.daemon.gateway.conversion import converted
from tidegate.daemon.gateway.endpoint import Call, Params, Read
from tidegate.daemon.gateway.lists import Id
from tidegate.daemon.permissions import Right
from tidegate.daemon.read_model.dead_letter import BATCH_LETTERS, Change, Outcome, letters_text
from tidegate.daemon.web.form import Field, Preview
from tidegate.daemon.web.pages.dead_letters import Filter
from tidegate.daemon.web.rendering import url
from tidegate.daemon.web.screen import Form
from tidegate.schemas.error import RequestError
from tidegate.schemas.queries import dead_letters
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.dead_letters import DeadLetterRow

B = TypeVar("B")

MOST = 1000
"""The most dead letters of a form."""


class Selection(Filter, frozen=True):
    """One dead letter, or the open ones of the filter."""

    id: Id | None = None


class Chosen(Params, frozen=True):
    """The ids that the form showed, between commas."""

    ids: str


class Discarded(WithReason, frozen=True, kw_only=True):
    """As `Chosen`, with a reason. A form sends no field that is empty."""

    ids: str
    because: str = ""


async def preview(change: Change, db: Db, call: Call[Selection]) -> Preview:
    ids = [call.params.id] if call.params.id else await dead_letters.open_ids(db, call.params.chosen)
    rows = await dead_letters.open_of(db, ids[:BATCH_LETTERS])
    changes = Changes(call.settings, call.caller.username, change)
    refused = await changes.refusals(db, [row.id for row in rows]) if change is Change.REPLAY else {}
    ids = [row.id for row in rows] if call.params.id else ids
    says, ids = says_of(change, len(ids)), ids[:MOST]
    return Preview(
        title=f"{str(change).capitalize()} {letters_text(len(ids))}",
        says=says,
        back=url("dead-letters", *([call.params.id] if call.params.id else [])),
        button=str(change).capitalize() if ids else "",
        titles=("Id", "Reason", "Record", "What happens") if rows else (),
        rows=[line(change, row, refused) for row in rows],
        fields=[
            Field(name="ids", label="", kind="hidden", value=",".join(map(str, ids))),
            *([BECAUSE] if change is Change.DISCARD else []),
        ],
        is_destructive=change is Change.DISCARD,
    )


BECAUSE = Field(name="because", label="Why they are not needed", hint="recorded with them", is_required=True)


def says_of(change: Change, found: int) -> list[str]:
    """What the change does to the dead letters that were found, of which a form has `MOST` at most."""
    if not found:
        return ["There is no such open dead letter: nothing can be changed."]
    what = {
        Change.REPLAY: "They are sent to their topics again, unchanged and as the same events: one that was handled meanwhile "
        "has no effect. One that fails again becomes a new dead letter that refers to this one. Each is replayed once.",
        Change.DISCARD: "They are closed, and are not handled. They can still be shown. Your name is recorded with them.",
    }
    first = [f"These are the first {BATCH_LETTERS}:"] if found > BATCH_LETTERS else []
    most = [f"A form changes the oldest {MOST} at most; open it again for the others."] if found > MOST else []
    return [what[change], *most, *first]


def line(change: Change, row: DeadLetterRow, refused: Mapping[int, str]) -> Sequence[str]:
    happens = refused.get(row.id, f"it is {change.state}")
    return str(row.id), row.reason, f"{row.topic}/{row.partition} at {row.offset}", happens


async def replay(call: Call[Params], body: Chosen) -> str:
    return await _act(Change.REPLAY, call, body.ids)


async def discard(call: Call[Params], body: Discarded) -> str:
    return await _act(Change.DISCARD, call, body.ids, body.because)


async def _act(change: Change, call: Call[Params], chosen: str, because: str = "") -> str:
    ids: Sequence[int] = converted(chosen.split(","), Ids, strict=False)
    changes = Changes(call.settings, call.caller.username, change, because)
    check_done(change, await changes.apply(call.database, list(dict.fromkeys(ids))))
    return url("dead-letters", ids[0]) if len(ids) == 1 else url("dead-letters", state=change.state)


def check_done(change: Change, outcome: Outcome) -> None:
    """Raises RequestError if some were refused: the others are changed."""
    if outcome.refused:
        more = f" (and {len(outcome.refused) - 1} more)" if len(outcome.refused) > 1 else ""
        done = f"{change.state} {letters_text(len(outcome.done))}; " if outcome.done else ""
        error = RequestError(f"{done}{outcome.refused[0].why}{more}")
        error.is_recorded = True
        raise error


def _form(change: Change, act: Callable[[Call[Params], B], Awaitable[str]], body: type[B]) -> Form:
    shows = Read(f"/dead-letters/{change}", Right.OPERATE, partial(preview, change), Selection, Preview)
    return Form.of(shows, act, Params, body, does=f"{change}ed dead letters", about=())


FORMS = (_form(Change.REPLAY, replay, Chosen), _form(Change.DISCARD, discard, Discarded))
