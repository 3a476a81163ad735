"""`tidegate deadletters`: records that could not be handled, why, and what is to become of them."""

from base64 import b64encode
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

import typer

from tidegate.daemon.cli.agreement import Yes
from tidegate.daemon.cli.command import Json, Limit, examples, moment, noun
from tidegate.daemon.cli.commands.letter_changes import Change, carry_out
from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.session import query, query_at
from tidegate.schemas.error import RequestError
from tidegate.schemas.queries import dead_letters
from tidegate.schemas.queries.dead_letters import Chosen, DeadLetterRow, DeadLetterState
from tidegate.schemas.timetable.text import age
from tidegate.schemas.wire.event import ADVICE, Rejection

app = noun("List and show records that could not be handled; send them again, or discard them.")

TITLES = ("ID", "STATE", "REASON", "TOPIC", "PARTITION", "OFFSET", "BYTES", "RECEIVED", "AGE", "REPLAY OF", "MESSAGE")


class Shown(StrEnum):
    """Which dead letters to list."""

    OPEN = DeadLetterState.OPEN
    REPLAYED = DeadLetterState.REPLAYED
    DISCARDED = DeadLetterState.DISCARDED
    ALL = "all"


Reason = Annotated[Rejection | None, typer.Option(help="Only those put aside for this reason.")]
Topic = Annotated[str | None, typer.Option(metavar="TOPIC", help="Only those of this topic.")]
Since = Annotated[datetime | None, typer.Option(parser=moment, metavar="TIME", help="Only those received from then on.")]
Until = Annotated[datetime | None, typer.Option(parser=moment, metavar="TIME", help="Only those received until then.")]
Ids = Annotated[list[int] | None, typer.Argument(metavar="[ID]...", help="As `tidegate deadletters list` shows them.")]
All = Annotated[bool, typer.Option("--all", help="All that are open.")]
Because = Annotated[str, typer.Option(metavar="TEXT", help="Why nobody needs them; it is kept with them.")]


@app.command(
    "list",
    epilog=examples("tidegate deadletters list --reason malformed", "tidegate deadletters list --state all --since 2026-01-31"),
)
def list_(
    context: typer.Context,
    *,
    state: Annotated[Shown, typer.Option(help="What became of them; open: nothing yet.")] = Shown.OPEN,
    reason: Reason = None,
    topic: Topic = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 50,
    json: Json = False,
) -> None:
    """List dead letters, newest first."""
    asked = None if state is Shown.ALL else DeadLetterState(state)
    found, now = query_at(context, dead_letters.list_dead_letters, asked, Chosen(reason, topic, since, until), limit)
    if json:
        output.write_json(found)
    else:
        output.table(TITLES, (_cells(letter, now) for letter in found), empty="there are no such dead letters")


@app.command(epilog=examples("tidegate deadletters show 12", "tidegate deadletters show 12 --json | jq -r .value"))
def show(
    context: typer.Context,
    id_: Annotated[int, typer.Argument(metavar="ID", help="As `tidegate deadletters list` shows it.")],
    *,
    json: Json = False,
) -> None:
    """Show a dead letter with its headers and value. In JSON, what is not UTF-8 is base64 and `…_encoding` says so."""
    letter = query(context, dead_letters.read, id_)
    if letter is None:
        raise RequestError(f"there is no dead letter {id_}; `tidegate deadletters list` shows those there are")
    if json:
        output.write_json(document(letter))
    else:
        _print(letter)


@app.command(
    epilog=examples(
        "tidegate deadletters replay 12 14",
        "tidegate deadletters replay --reason unknown_attempt --topic tidegate.task-finished --yes",
    )
)
def replay(
    context: typer.Context,
    ids: Ids = None,
    *,
    reason: Reason = None,
    topic: Topic = None,
    since: Since = None,
    until: Until = None,
    all_: All = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Send records to their topics again, as they came and as the same events: one that was taken meanwhile has no effect.

    One that still cannot be handled becomes another dead letter, which names this one. Each is replayed once; who did it is
    recorded.
    """
    chosen = Chosen(reason, topic, since, until)
    carry_out(context, Change.REPLAY, ids or [], chosen, is_all=all_, yes=yes, json=json)


@app.command(
    epilog=examples(
        'tidegate deadletters discard 12 --because "a test of the importer"',
        'tidegate deadletters discard --reason malformed --until 2026-01-31 --because "the importer is mended" --yes',
    )
)
def discard(
    context: typer.Context,
    ids: Ids = None,
    *,
    because: Because,
    reason: Reason = None,
    topic: Topic = None,
    since: Since = None,
    until: Until = None,
    all_: All = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Put dead letters aside for good. They can still be shown; who did it and why is recorded."""
    if not because.strip() or "\0" in because:
        raise typer.BadParameter("a few words are needed that say why", param_hint="--because")
    chosen = Chosen(reason, topic, since, until)
    carry_out(context, Change.DISCARD, ids or [], chosen, is_all=all_, yes=yes, json=json, because=because)


def document(letter: dict[str, Any]) -> dict[str, Any]:
    """A dead letter as JSON has it."""
    letter = {**letter, "replayed_as": list(letter["replayed_as"]), "advice": ADVICE.get(letter["reason"])}
    return {**letter, **_readable("key", letter["key"]), **_readable("value", letter["value"])}


def _readable(name: str, content: bytes | None) -> dict[str, str | None]:
    if content is None:
        return {name: None}
    try:
        return {name: content.decode()}
    except UnicodeDecodeError:
        return {name: b64encode(content).decode(), f"{name}_encoding": "base64"}


def _print(letter: dict[str, Any]) -> None:
    output.heading(f"dead letter {letter['id']}")
    is_open = letter["state"] == DeadLetterState.OPEN
    output.facts(
        (
            *((name, letter[name]) for name in ("state", "reason", "message")),
            ("what to do", ADVICE.get(letter["reason"]) if is_open else None),
            *((name, letter[name]) for name in ("topic", "partition", "offset", "recorded_at", "received_at")),
            *((name, letter[name]) for name in ("closed_at", "closed_by", "closed_because")),
            ("replay of", letter["replay_of"]),
            ("replayed as", _later(letter)),
        )
    )
    output.facts((("key", _text(letter["key"])), ("size", f"{letter['value_bytes']} bytes")))
    output.section("headers", ("NAME", "VALUE"), letter["headers"], empty="none")
    output.write()
    output.heading("value")
    output.write(f"  {_text(letter['value'])}")
    if letter["value"] is not None and len(letter["value"]) < letter["value_bytes"]:
        output.write(f"  (the first {len(letter['value'])} bytes of it)")


def _later(letter: dict[str, Any]) -> str | None:
    if letter["state"] != DeadLetterState.REPLAYED:
        return None
    if letter["is_waiting"]:
        return "it waits to be sent"
    return ", ".join(f"dead letter {id_}" for id_ in letter["replayed_as"]) or "no dead letter until now"


def _text(content: bytes | None) -> str:
    return output.NOTHING if content is None else output.printable(content.decode(errors="backslashreplace"))


def _cells(letter: DeadLetterRow, now: datetime) -> tuple[output.Cell, ...]:
    return (
        letter.id,
        letter.state,
        letter.reason,
        letter.topic,
        letter.partition,
        letter.offset,
        letter.value_bytes,
        letter.received_at,
        age(letter.received_at, now),
        letter.replay_of,
        letter.message,
    )
