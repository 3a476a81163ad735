"""`tidegate deadletters`: records that could not be processed; list, show, replay and discard them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, TypedDict, Unpack

import msgspec
import typer

from tidegate.daemon.cli.command import (
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
from tidegate.daemon.cli.pages.dead_letter import document, print_page
from tidegate.daemon.cli.pages.lists import DEAD_LETTERS, print_list
from tidegate.daemon.cli.session import query, query_at, read_settings, with_database
from tidegate.daemon.identity.local_user import current_user
from tidegate.daemon.settings import Settings
from tidegate.schemas.error import RejectedError, RequestError
from tidegate.schemas.queries import dead_letters, inbox
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.dead_letters import DeadLetterFilter, DeadLetterState, DeadLetterStatus
from tidegate.schemas.queries.inbox import DeadLetter
from tidegate.schemas.wire.event import ADVICE, INCOMING, Rejection

if TYPE_CHECKING:
    from tidegate.daemon.postgres.database import Database

app = command_group()

BATCH_LETTERS = 20
"""A replay reads whole records into memory, of a megabyte or more each. An interruption leaves whole batches done."""


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
    found, now = query_at(context, dead_letters.list_dead_letters, selected, DeadLetterFilter(**filters), limit)
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
    output.write_page(document(letter), lambda: print_page(letter), json=json)


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


Batch = tuple[Sequence[int], Mapping[int, DeadLetterStatus], Mapping[int, str]]
"""The changed ids of a batch, the standing of all its dead letters, and why some were refused."""


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
    settings = read_settings(context, "postgres_dsn")
    changes = _Changes(settings, change, because)

    async def select(database: "Database") -> Sequence[int]:
        return list(dict.fromkeys(ids)) or await database.run(dead_letters.open_ids, chosen)

    selected = with_database(context, select)
    if not ids and selected and not yes:
        confirm(change, _count(selected))
    outcome = with_database(context, lambda database: changes.apply(database, selected))
    _print(change, outcome, json=json)


class _Changes:
    """One change of many dead letters."""

    def __init__(self, settings: Settings, change: Change, because: str) -> None:
        self.change = change
        self.because = because
        self.user = current_user(settings)
        self.kinds = {settings.topic(kind): kind for kind in INCOMING}

    async def apply(self, database: "Database", ids: Sequence[int]) -> Outcome:
        from tidegate.daemon.request import notify_daemons
        from tidegate.daemon.work import Work

        outcome = Outcome()
        with _progress(f"{self.change.state} dead letters", len(ids)) as advance:
            for start in range(0, len(ids), BATCH_LETTERS):
                batch = ids[start : start + BATCH_LETTERS]
                done, standing, refused = await database.run(self._apply_batch, batch)
                outcome.done += done
                for id_ in (id_ for id_ in batch if id_ not in done):
                    self._explain(id_, standing.get(id_), refused.get(id_), outcome)
                advance(len(batch))
        if self.change is Change.REPLAY and outcome.done:
            await notify_daemons(database, Work.RELAY)
        return outcome

    async def _apply_batch(self, db: Db, ids: Sequence[int]) -> Batch:
        refused = {}
        if self.change is Change.REPLAY:
            found = await inbox.whole_dead_letters(db, ids)
            refused = {id_: why for id_, letter in found.items() if (why := self._refusal(id_, letter))}
            done = await dead_letters.replay(db, [id_ for id_ in ids if id_ not in refused], self.user)
        else:
            done = await dead_letters.discard(db, ids, self.user, self.because)
        return done, {letter.id: letter for letter in await dead_letters.status(db, ids)}, refused

    def _refusal(self, id_: int, letter: DeadLetter) -> str:
        """Why a record cannot be replayed; empty if it can."""
        from tidegate.events import dead_letter
        from tidegate.events.sink import MAX_MESSAGE_BYTES, message_bytes
        from tidegate.schemas.wire.envelope import decode

        if (kind := self.kinds.get(letter.topic)) is None:
            return f"dead letter {id_} is of topic {letter.topic}, which the daemons do not read; check TIDEGATE_TOPIC_PREFIX"
        message = dead_letter.replay_message(id_, letter)
        if (size := message_bytes(message)) > MAX_MESSAGE_BYTES:
            return f"dead letter {id_} has {size} bytes, and at most {MAX_MESSAGE_BYTES} are possible; discard it"
        try:
            decode(kind, message.headers, message.value)
        except RejectedError as error:
            return f"dead letter {id_} would be refused again ({error}): {ADVICE[Rejection(error.reason)]}"
        return ""

    def _explain(self, id_: int, standing: DeadLetterStatus | None, refused: str | None, outcome: Outcome) -> None:
        if standing is None:
            outcome.refused.append(
                Refused(id_, f"there is no dead letter {id_}; `tidegate deadletters list --state all` shows all")
            )
        elif standing.state is self.change.state:
            outcome.already.append(id_)
        elif standing.state is not DeadLetterState.OPEN:
            outcome.refused.append(Refused(id_, f"dead letter {id_} was {standing.state} by {standing.closed_by}"))
        else:
            outcome.refused.append(Refused(id_, refused or f"dead letter {id_} is still open; try again"))


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
        raise RequestError(f"{outcome.refused[0].why}{more}")


def _named(ids: Sequence[int]) -> str:
    return f"dead letter {ids[0]}" if len(ids) == 1 else _count(ids)


def _count(ids: Sequence[int]) -> str:
    return f"{len(ids) or 'no'} dead {'letter' if len(ids) == 1 else 'letters'}"


@contextmanager
def _progress(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar on stderr, on a terminal and for more than one batch."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal or total <= BATCH_LETTERS) as progress:
        task = progress.add_task(title, total=total)
        yield lambda done: progress.advance(task, done)
