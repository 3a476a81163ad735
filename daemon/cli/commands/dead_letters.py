"""`tidegate deadletters`: records that could not be processed; list, show, replay and discard them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, TypedDict, Unpack

import msgspec
import typer

from tidegate.daemon.cli.command import (
    MAX_ID,
    Json,
    Limit,
    Yes,
    check_reason,
    command_group,
    confirm,
    examples,
    parse_time,
    shared_options,
)
from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.pages.dead_letter import print_page
from tidegate.daemon.cli.pages.lists import DEAD_LETTERS, print_list
from tidegate.daemon.cli.session import at, listed, query, read_settings, remote, shown, with_database
from tidegate.daemon.gateway.commands import with_commands
from tidegate.daemon.identity.local_user import current_user
from tidegate.daemon.read_model.dead_letter import (
    BATCH_LETTERS,
    Change,
    DeadLetterPage,
    ListedState,
    Outcome,
    letters_text,
    read_dead_letter_page,
)
from tidegate.schemas.error import RequestError
from tidegate.schemas.queries import dead_letters
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.dead_letters import DeadLetterFilter, DeadLetterRow, DeadLetterState
from tidegate.schemas.wire.event import Rejection

if TYPE_CHECKING:
    from tidegate.daemon.cli.remote import Remote

app = command_group()

REQUEST_LETTERS = 5 * BATCH_LETTERS
"""The most dead letters that one request to a server changes."""


class Filters(TypedDict):
    """Options that select dead letters."""

    reason: Annotated[Rejection | None, typer.Option(help="Only dead letters rejected for this reason.")]
    topic: Annotated[str | None, typer.Option(metavar="TOPIC", help="Only dead letters of this topic.")]
    since: Annotated[
        datetime | None, typer.Option(parser=parse_time, metavar="TIME", help="Only dead letters received from this time on.")
    ]
    until: Annotated[
        datetime | None, typer.Option(parser=parse_time, metavar="TIME", help="Only dead letters received until this time.")
    ]


Ids = Annotated[
    list[int] | None, typer.Argument(metavar="[ID]...", min=1, max=MAX_ID, help="Ids, as `tidegate deadletters list` shows them.")
]
All = Annotated[bool, typer.Option("--all", help="All open dead letters.")]
Because = Annotated[str, typer.Option(metavar="TEXT", help="Why they are not needed; recorded with them.")]


@app.command(
    "list",
    epilog=examples("tidegate deadletters list --reason malformed", "tidegate deadletters list --state all --since 2026-01-31"),
)
@shared_options(Filters)
def list_(
    context: typer.Context,
    *,
    state: Annotated[ListedState, typer.Option(help="Only dead letters in this state.")] = ListedState.OPEN,
    limit: Limit = 50,
    json: Json = False,
    **filters: Unpack[Filters],
) -> None:
    """List dead letters, newest first."""
    selected = None if state is ListedState.ALL else DeadLetterState(state)

    async def read(db: Db) -> list[DeadLetterRow]:
        return await dead_letters.list_dead_letters(db, selected, DeadLetterFilter(**filters), limit)

    found, now = listed(context, "/dead-letters", DeadLetterRow, read, limit, state=state, **filters)
    print_list(DEAD_LETTERS, found, now, json=json)


@app.command(epilog=examples("tidegate deadletters show 12", "tidegate deadletters show 12 --json | jq -r .value"))
def show(
    context: typer.Context,
    id_: Annotated[int, typer.Argument(metavar="ID", min=1, max=MAX_ID, help="The id, as `tidegate deadletters list` shows it.")],
    *,
    json: Json = False,
) -> None:
    """Show a dead letter with its headers and value. In JSON, what is not UTF-8 is base64 and `…_encoding` says so."""

    async def read(db: Db) -> DeadLetterPage:
        return await read_dead_letter_page(db, id_)

    letter, _ = shown(context, at("dead-letters", id_), DeadLetterPage, read)
    output.write_page(letter, lambda: print_page(letter), json=json)


@app.command(
    epilog=examples(
        "tidegate deadletters replay 12 14",
        "tidegate deadletters replay --reason unknown_attempt --topic tidegate.task-finished --yes",
    )
)
@shared_options(Filters)
def replay(
    context: typer.Context,
    ids: Ids = None,
    *,
    all_: All = False,
    yes: Yes = False,
    json: Json = False,
    **filters: Unpack[Filters],
) -> None:
    """Send records to their topics again, unchanged and as the same events: one processed in the meantime has no effect.

    A record that no daemon of this version can read is refused. One that still cannot be processed becomes a new dead letter
    that refers to this one. Each is replayed once. The user is recorded. Exit code 1 if any was refused.
    """
    change_dead_letters(context, Change.REPLAY, ids or [], DeadLetterFilter(**filters), is_all=all_, yes=yes, json=json)


@app.command(
    epilog=examples(
        'tidegate deadletters discard 12 --because "a test of the importer"',
        'tidegate deadletters discard --reason malformed --until 2026-01-31 --because "the importer is fixed" --yes',
    )
)
@shared_options(Filters)
def discard(
    context: typer.Context,
    ids: Ids = None,
    *,
    because: Because,
    all_: All = False,
    yes: Yes = False,
    json: Json = False,
    **filters: Unpack[Filters],
) -> None:
    """Close dead letters without replaying them; they can still be shown. The user and the reason are recorded.

    Exit code 1 if any was refused.
    """
    check_reason("--because", because)
    change_dead_letters(
        context, Change.DISCARD, ids or [], DeadLetterFilter(**filters), is_all=all_, yes=yes, json=json, because=because
    )


def change_dead_letters(
    context: typer.Context,
    change: Change,
    ids: Sequence[int],
    chosen: DeadLetterFilter,
    *,
    is_all: bool,
    yes: bool,
    json: bool,
    because: str = "",
) -> None:
    """Raises BadParameter for an unclear selection; RequestError, after changing the others, if some were refused."""
    _check_selection(ids, chosen, is_all=is_all)
    selected = list(dict.fromkeys(ids)) or _open_ids(context, chosen)
    if not ids and selected and not yes:
        confirm(change, letters_text(len(selected)))
    with _progress(f"{change.state} dead letters", len(selected)) as advance:
        outcome = _apply(context, change, because, selected, advance)
    _print(change, outcome, json=json)


def _open_ids(context: typer.Context, chosen: DeadLetterFilter) -> list[int]:
    """The open dead letters, oldest first."""
    server = remote(context)
    if server is None:
        return query(context, dead_letters.open_ids, chosen)
    found = server.rows("/dead-letters", DeadLetterRow, None, msgspec.structs.asdict(chosen))
    return [letter.id for letter in reversed(found)]


def _apply(context: typer.Context, change: Change, because: str, ids: Sequence[int], advance: Callable[[int], None]) -> Outcome:
    from tidegate.daemon.dead_letters import Changes

    server = remote(context)
    if server is not None:
        return _applied_by(server, change, because, ids, advance)
    settings = read_settings(context)
    changes = Changes(settings, current_user(settings), change, because)
    return with_database(context, lambda database: changes.apply(database, ids, advance))


def _applied_by(server: "Remote", change: Change, because: str, ids: Sequence[int], advance: Callable[[int], None]) -> Outcome:
    """By requests that each end in time; those before one that fails are done."""
    outcome = Outcome()
    for start in range(0, len(ids), REQUEST_LETTERS):
        body = {"ids": ids[start : start + REQUEST_LETTERS], **({"because": because} if because else {})}
        part = server.change("POST", at("dead-letters", change), Outcome, body, {})
        outcome = Outcome(outcome.done + part.done, outcome.already + part.already, outcome.refused + part.refused)
        advance(len(body["ids"]))
    return outcome


def _check_selection(ids: Sequence[int], chosen: DeadLetterFilter, *, is_all: bool) -> None:
    filtered = chosen != DeadLetterFilter()
    if ids and (filtered or is_all):
        raise typer.BadParameter("give either ids or filters, not both", param_hint="ID")
    if not ids and not filtered and not is_all:
        raise typer.BadParameter("give ids, or select by --reason, --topic, --since, --until or --all", param_hint="ID")


def _print(change: Change, outcome: Outcome, *, json: bool) -> None:
    if json:
        output.write_json({str(change.state): outcome.done, "already": outcome.already, "refused": outcome.refused})
    else:
        output.write(f"{change.state} {_named(outcome.done)}")
        if outcome.already:
            output.write(f"{_named(outcome.already)} {'was' if len(outcome.already) == 1 else 'were'} {change.state} before")
    if outcome.refused:
        more = f" (and {len(outcome.refused) - 1} more)" if len(outcome.refused) > 1 else ""
        raise RequestError(f"{with_commands(outcome.refused[0].why)}{more}")


def _named(ids: Sequence[int]) -> str:
    return f"dead letter {ids[0]}" if len(ids) == 1 else letters_text(len(ids))


@contextmanager
def _progress(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar on stderr, on a terminal and for more than one batch."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal or total <= BATCH_LETTERS) as progress:
        task = progress.add_task(title, total=total)
        yield lambda done: progress.advance(task, done)
