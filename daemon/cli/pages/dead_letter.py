"""The page of `deadletters show`."""

from typing import Any

from tidegate.daemon.cli.pages import output
from tidegate.daemon.read_model.dead_letter import content_text
from tidegate.daemon.terminal import printable
from tidegate.schemas.queries.dead_letters import DeadLetterState
from tidegate.schemas.wire.event import ADVICE


def print_page(letter: dict[str, Any]) -> None:
    output.heading(f"dead letter {letter['id']}")
    is_open = letter["state"] == DeadLetterState.OPEN
    output.facts(
        (
            *((name, letter[name]) for name in ("state", "reason", "message")),
            ("what to do", ADVICE.get(letter["reason"]) if is_open else None),
            *((name, letter[name]) for name in ("topic", "partition", "offset", "recorded_at", "received_at")),
            *((name, letter[name]) for name in ("closed_at", "closed_by", "closed_because")),
            ("replay of", letter["replay_of"]),
            ("replayed as", _replays(letter)),
        )
    )
    output.facts((("key", _text(letter["key"])), ("size", f"{letter['value_bytes']} bytes")))
    output.section("headers", ("NAME", "VALUE"), letter["headers"], empty="none")
    output.write()
    output.heading("value")
    output.write(f"  {_text(letter['value'])}")
    if letter["value"] is not None and len(letter["value"]) < letter["value_bytes"]:
        output.write(f"  (the first {len(letter['value'])} bytes of it)")


def _replays(letter: dict[str, Any]) -> str | None:
    if letter["state"] != DeadLetterState.REPLAYED:
        return None
    if letter["is_waiting"]:
        return "it waits to be sent"
    return ", ".join(f"dead letter {id_}" for id_ in letter["replayed_as"]) or "no dead letter until now"


def _text(content: bytes | None) -> str:
    return output.NOTHING if content is None else printable(content_text(content))
