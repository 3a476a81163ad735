"""A dead letter as a document, and the outcome of a change of several."""

from base64 import b64encode
from enum import StrEnum
from typing import Any

import msgspec

from tidegate.schemas.error import NotFoundError
from tidegate.schemas.queries import dead_letters
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.dead_letters import DeadLetterState
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
        return DeadLetterState(f"{self}ed")


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


def document(letter: dict[str, Any]) -> dict[str, Any]:
    """The JSON document. A key or value that is not UTF-8 is base64, and `…_encoding` says so."""
    letter = {**letter, "replayed_as": list(letter["replayed_as"]), "advice": ADVICE.get(letter["reason"])}
    return {**letter, **_content("key", letter["key"]), **_content("value", letter["value"])}


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
