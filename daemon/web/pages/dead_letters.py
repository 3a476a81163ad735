"""The list of dead letters, and one of them."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from tidegate.daemon.api.dead_letters import NEWEST, DeadLetterPath
from tidegate.daemon.gateway.cursor import Page
from tidegate.daemon.gateway.endpoint import Call, Read
from tidegate.daemon.gateway.lists import Listed
from tidegate.daemon.permissions import Right
from tidegate.daemon.read_model.dead_letter import ListedState, content_text, find_dead_letter
from tidegate.daemon.web.fields import between
from tidegate.daemon.web.screen import Screen
from tidegate.schemas.queries import dead_letters
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.dead_letters import DeadLetterFilter, DeadLetterRow, DeadLetterState
from tidegate.schemas.wire.event import ADVICE, Rejection

SHOWN = 20_000
"""The most characters of a record on its page."""

Text = Annotated[str, Meta(max_length=1000)]


class Filter(Listed, frozen=True):
    """`since` and `until` are dates or times, which compare the time at which dead letters were received."""

    reason: Rejection | None = None
    topic: Text = ""
    since: Text = ""
    until: Text = ""

    @property
    def chosen(self) -> DeadLetterFilter:
        """Raises InvalidError for a time that cannot be read."""
        return DeadLetterFilter(self.reason, self.topic.strip() or None, *between(self.since, self.until))


class DeadLetterList(Filter, frozen=True):
    """A page of the list."""

    state: ListedState = ListedState.OPEN


class DeadLetterScreen(Struct, frozen=True):
    """The page of a dead letter. `key` and `value` are texts; `cut` characters of the value were left out."""

    letter: dict[str, Any]
    advice: str
    key: str
    value: str
    cut: int


async def read_list(db: Db, call: Call[DeadLetterList]) -> Page[DeadLetterRow]:
    params = call.params
    state = None if params.state is ListedState.ALL else DeadLetterState(params.state)
    rows = await dead_letters.list_dead_letters(db, state, params.chosen, params.limit + 1, NEWEST.first(params))
    return NEWEST.page(rows, params)


async def read_one(db: Db, call: Call[DeadLetterPath]) -> DeadLetterScreen:
    letter = await find_dead_letter(db, call.params.id)
    value = content_text(letter["value"])
    return DeadLetterScreen(
        letter=letter,
        advice=ADVICE.get(letter["reason"], "") if letter["state"] == DeadLetterState.OPEN else "",
        key=content_text(letter["key"]),
        value=value[:SHOWN],
        cut=max(len(value) - SHOWN, 0),
    )


LIST = Screen(Read("/dead-letters", Right.VIEW, read_list, DeadLetterList, Page[DeadLetterRow]), "dead_letters.html")
ONE = Screen(Read("/dead-letters/{id}", Right.VIEW, read_one, DeadLetterPath, DeadLetterScreen), "dead_letter.html")
