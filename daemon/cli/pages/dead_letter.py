"""The page of `deadletters show`."""

from collections.abc import Iterator

from tidegate.daemon.cli.pages import output
from tidegate.daemon.read_model.dead_letter import DeadLetterPage, content_of, content_text
from tidegate.daemon.terminal import printable
from tidegate.schemas.queries.dead_letters import DeadLetterState


def print_page(letter: DeadLetterPage) -> None:
    output.heading(f"dead letter {letter.id}")
    is_open = letter.state == DeadLetterState.OPEN
    key, value = content_of(letter.key, letter.key_encoding), content_of(letter.value, letter.value_encoding)
    output.facts(
        (
            *_facts(letter, "state", "reason", "message"),
            ("what to do", letter.advice if is_open else None),
            *_facts(letter, "topic", "partition", "offset", "recorded_at", "received_at"),
            *_facts(letter, "closed_at", "closed_by", "closed_because"),
            ("replay of", letter.replay_of),
            ("replayed as", _replays(letter)),
        )
    )
    output.facts((("key", _text(key)), ("size", f"{letter.value_bytes} bytes")))
    output.section("headers", ("NAME", "VALUE"), letter.headers, empty="none")
    output.write()
    output.heading("value")
    output.write(f"  {_text(value)}")
    if value is not None and len(value) < letter.value_bytes:
        output.write(f"  (the first {len(value)} bytes of it)")


def _facts(letter: DeadLetterPage, *names: str) -> Iterator[tuple[str, output.Cell]]:
    return ((name, getattr(letter, name)) for name in names)


def _replays(letter: DeadLetterPage) -> str | None:
    if letter.state != DeadLetterState.REPLAYED:
        return None
    if letter.is_waiting:
        return "it waits to be sent"
    return ", ".join(f"dead letter {id_}" for id_ in letter.replayed_as) or "no dead letter until now"


def _text(content: bytes | None) -> str:
    return output.NOTHING if content is None else printable(content_text(content))
