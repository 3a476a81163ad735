"""`tidegate deadletters`: records that could not be handled, and why."""

from base64 import b64encode
from datetime import datetime
from typing import Annotated, Any

import typer

from tidegate.daemon.cli import output
from tidegate.daemon.cli.command import Json, Limit, examples, noun
from tidegate.daemon.cli.moment import age
from tidegate.daemon.cli.session import query
from tidegate.schemas.error import RequestError
from tidegate.schemas.event import Rejection
from tidegate.schemas.queries import inbox
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.inbox import DeadLetterRow

app = noun("List and show records that could not be handled.")

TITLES = ("ID", "REASON", "TOPIC", "PARTITION", "OFFSET", "BYTES", "RECEIVED", "AGE", "MESSAGE")


@app.command("list", epilog=examples("tidegate deadletters list --reason malformed"))
def list_(
    context: typer.Context,
    *,
    reason: Annotated[Rejection | None, typer.Option(help="Only those put aside for this reason.")] = None,
    limit: Limit = 50,
    json: Json = False,
) -> None:
    """List dead letters, newest first."""

    async def read(db: Db) -> tuple[list[DeadLetterRow], datetime]:
        return await inbox.list_dead_letters(db, reason, limit), db.now

    found, now = query(context, read)
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
    letter = query(context, lambda db: inbox.dead_letter(db, id_))
    if letter is None:
        raise RequestError(f"there is no dead letter {id_}; `tidegate deadletters list` shows those there are")
    if json:
        output.write_json(document(letter))
    else:
        _print(letter)


def document(letter: dict[str, Any]) -> dict[str, Any]:
    """A dead letter as JSON has it."""
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
    output.facts((name, letter[name]) for name in ("reason", "message", "topic", "partition", "offset", "received_at"))
    output.facts((("key", _text(letter["key"])), ("size", f"{letter['value_bytes']} bytes")))
    output.section("headers", ("NAME", "VALUE"), letter["headers"], empty="none")
    output.write()
    output.heading("value")
    output.write(f"  {_text(letter['value'])}")
    if letter["value"] is not None and len(letter["value"]) < letter["value_bytes"]:
        output.write(f"  (the first {len(letter['value'])} bytes of it)")


def _text(content: bytes | None) -> str:
    return output.NOTHING if content is None else output.printable(content.decode(errors="backslashreplace"))


def _cells(letter: DeadLetterRow, now: datetime) -> tuple[output.Cell, ...]:
    return (
        letter.id,
        letter.reason,
        letter.topic,
        letter.partition,
        letter.offset,
        letter.value_bytes,
        letter.received_at,
        age(letter.received_at, now),
        letter.message,
    )
