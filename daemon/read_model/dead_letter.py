"""A dead letter as a document, and the outcome of a change of several."""

from base64 import b64decode, b64encode
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

import msgspec

from tidegate.schemas.error import NotFoundError
from tidegate.schemas.queries import dead_letters
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.dead_letters import DeadLetterState
from tidegate.schemas.text import counted
from tidegate.schemas.wire.event import ADVICE

BATCH_LETTERS = 20
"""A replay reads whole records into memory, of a megabyte or more each. An interruption leaves whole batches done."""


class ListedState(StrEnum):
    """The states that `list` selects by."""

    OPEN = DeadLetterState.OPEN
    REPLAYED = DeadLetterState.REPLAYED
    DISCARDED = DeadLetterState.DISCARDED
    ALL = "all"


class Change(StrEnum):
    """What happens to the dead letters."""

    REPLAY = "replay"
    DISCARD = "discard"

    @property
    def state(self) -> DeadLetterState:
        return DeadLetterState.REPLAYED if self is Change.REPLAY else DeadLetterState.DISCARDED


class DeadLetterPage(msgspec.Struct, frozen=True, kw_only=True):
    """A dead letter. A `key` or `value` that is not UTF-8 is base64, and `…_encoding` says so.

    `value` is the beginning of the record's `value_bytes`. `replay_of` and `replayed_as` are dead letters of the same record.
    """

    id: int
    state: DeadLetterState
    topic: str
    partition: int
    offset: int
    key: str | None
    headers: Sequence[tuple[str, str]]
    value: str | None
    value_bytes: int
    reason: str
    message: str
    recorded_at: datetime | None
    received_at: datetime
    replay_of: int | None
    closed_at: datetime | None
    closed_by: str | None
    closed_because: str | None
    replayed_as: Sequence[int]
    is_waiting: bool
    advice: str | None
    key_encoding: Literal["base64"] | msgspec.UnsetType = msgspec.UNSET
    value_encoding: Literal["base64"] | msgspec.UnsetType = msgspec.UNSET


class Refused(msgspec.Struct, frozen=True):
    """A dead letter that is left unchanged, and why."""

    id: int
    why: str


class Outcome(msgspec.Struct):
    """The ids that were changed, those in that state `already`, and the refused ones."""

    done: list[int] = []
    already: list[int] = []
    refused: list[Refused] = []


async def find_dead_letter(db: Db, id_: int) -> dict[str, Any]:
    """One dead letter with all columns and its replays. Raises NotFoundError."""
    letter = await dead_letters.read(db, id_)
    if letter is None:
        raise NotFoundError(f"there is no dead letter {id_}; `tidegate deadletters list --state all` shows all")
    return letter


async def read_dead_letter_page(db: Db, id_: int) -> DeadLetterPage:
    """Raises NotFoundError."""
    letter = await find_dead_letter(db, id_)
    content = {**_content("key", letter["key"]), **_content("value", letter["value"])}
    return msgspec.convert({**letter, "advice": ADVICE.get(letter["reason"]), **content}, DeadLetterPage)


def letters_text(number: int) -> str:
    """`no dead letters`, `1 dead letter`, `2 dead letters`."""
    return counted(number, "dead letter", "dead letters") if number else "no dead letters"


def content_of(text: str | None, encoding: str | msgspec.UnsetType) -> bytes | None:
    """The key or the value of a page."""
    return None if text is None else b64decode(text) if encoding == "base64" else text.encode()


def content_text(content: bytes | None) -> str:
    """A key or a value as people read it; what is not UTF-8 is escaped."""
    return "" if content is None else content.decode(errors="backslashreplace")


def _content(name: str, content: bytes | None) -> dict[str, str | None]:
    if content is None:
        return {name: None}
    try:
        return {name: content.decode()}
    except UnicodeDecodeError:
        return {name: b64encode(content).decode(), f"{name}_encoding": "base64"}
