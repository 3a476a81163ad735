"""`tidegate deadletters`: records that could not be processed; list, show, replay and discard them."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, TypedDict, Unpack

import typer

from tidegate.daemon.cli.command import (
    Json,
    Limit,
    check_reason,
    command_group,
    examples,
    parse_time,
    shared_options,
)
from tidegate.daemon.cli.commands.dead_letter_changes import Change, change_dead_letters
from tidegate.daemon.cli.confirmation import Yes
from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.pages.dead_letter import document, print_page
from tidegate.daemon.cli.pages.lists import DEAD_LETTERS, print_list
from tidegate.daemon.cli.session import query, query_at
from tidegate.schemas.error import RequestError
from tidegate.schemas.queries import dead_letters
from tidegate.schemas.queries.dead_letters import Chosen, DeadLetterState
from tidegate.schemas.wire.event import Rejection

app = command_group("List and show records that could not be processed; replay or discard them.")


class ListedState(StrEnum):
    """The states that `list` selects by."""

    OPEN = DeadLetterState.OPEN
    REPLAYED = DeadLetterState.REPLAYED
    DISCARDED = DeadLetterState.DISCARDED
    ALL = "all"


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


Ids = Annotated[list[int] | None, typer.Argument(metavar="[ID]...", help="Ids, as `tidegate deadletters list` shows them.")]
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
    found, now = query_at(context, dead_letters.list_dead_letters, selected, Chosen(**filters), limit)
    print_list(DEAD_LETTERS, found, now, json=json)


@app.command(epilog=examples("tidegate deadletters show 12", "tidegate deadletters show 12 --json | jq -r .value"))
def show(
    context: typer.Context,
    id_: Annotated[int, typer.Argument(metavar="ID", help="The id, as `tidegate deadletters list` shows it.")],
    *,
    json: Json = False,
) -> None:
    """Show a dead letter with its headers and value. In JSON, what is not UTF-8 is base64 and `…_encoding` says so."""
    letter = query(context, dead_letters.read, id_)
    if letter is None:
        raise RequestError(f"there is no dead letter {id_}; `tidegate deadletters list --state all` shows all")
    if json:
        output.write_json(document(letter))
    else:
        print_page(letter)


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

    A record that still cannot be processed becomes a new dead letter that refers to this one. Each is replayed once. The user is
    recorded. Exit code 1 if any was refused.
    """
    change_dead_letters(context, Change.REPLAY, ids or [], Chosen(**filters), is_all=all_, yes=yes, json=json)


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
    change_dead_letters(context, Change.DISCARD, ids or [], Chosen(**filters), is_all=all_, yes=yes, json=json, because=because)
