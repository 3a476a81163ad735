"""Replay or discard dead letters: a few at a time, each few in one transaction, which an interruption leaves done or undone."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec
import typer

from tidegate.daemon.cli.agreement import agree
from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.session import settings_of, who, with_database
from tidegate.daemon.settings import Settings
from tidegate.schemas.error import RequestError
from tidegate.schemas.queries import dead_letters, inbox
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.dead_letters import Chosen, DeadLetterState, Standing
from tidegate.schemas.queries.inbox import DeadLetter
from tidegate.schemas.wire.event import INCOMING

if TYPE_CHECKING:
    from tidegate.daemon.postgres.database import Database

AT_ONCE = 20
"""Whole records are read before they are replayed, and each may have a megabyte or more."""


class Change(StrEnum):
    """What a user wants done with dead letters."""

    REPLAY = "replay"
    DISCARD = "discard"

    @property
    def state(self) -> DeadLetterState:
        return DeadLetterState(f"{self}ed")


class Refused(msgspec.Struct, frozen=True):
    """A dead letter that stays as it is, and why."""

    id: int
    why: str


class Outcome(msgspec.Struct):
    """What was done: `already` says which were so before."""

    done: list[int] = []
    already: list[int] = []
    refused: list[Refused] = []


Few = tuple[Sequence[int], Mapping[int, Standing], Mapping[int, str]]
"""Those that were done, how all of them stand, and why some cannot be done."""


def carry_out(
    context: typer.Context,
    change: Change,
    ids: Sequence[int],
    chosen: Chosen,
    *,
    is_all: bool,
    yes: bool,
    json: bool,
    because: str = "",
) -> None:
    """Raises BadParameter where it is not clear which ones are meant, RequestError in the end when some were refused."""
    _check(ids, chosen, is_all=is_all)
    settings = settings_of(context, "postgres_dsn")
    plan = _Plan(settings, change, because)

    async def find(database: "Database") -> Sequence[int]:
        return list(dict.fromkeys(ids)) or await database.run(dead_letters.open_ids, chosen)

    found = with_database(context, find)
    if not ids and found and not yes:
        agree(change, f"{len(found)} dead {'letter' if len(found) == 1 else 'letters'}")
    outcome = with_database(context, lambda database: plan.carry_out(database, found))
    _tell(change, outcome, json=json)


class _Plan:
    """What is to be done to each of many."""

    def __init__(self, settings: Settings, change: Change, because: str) -> None:
        self.change = change
        self.because = because
        self.user = who(settings)
        self.topics = {settings.topic(kind) for kind in INCOMING}

    async def carry_out(self, database: "Database", ids: Sequence[int]) -> Outcome:
        from tidegate.daemon.cli.request import wake_daemons
        from tidegate.daemon.work import Work

        outcome = Outcome()
        with _progress(f"{self.change.state} dead letters", len(ids)) as advance:
            for start in range(0, len(ids), AT_ONCE):
                few = ids[start : start + AT_ONCE]
                done, standing, refused = await database.run(self._change_few, few)
                outcome.done += done
                for id_ in (each for each in few if each not in done):
                    self._sort(id_, standing.get(id_), refused.get(id_), outcome)
                advance(len(few))
        if self.change is Change.REPLAY and outcome.done:
            await wake_daemons(database, Work.RELAY)
        return outcome

    async def _change_few(self, db: Db, ids: Sequence[int]) -> Few:
        refused = {}
        if self.change is Change.REPLAY:
            found = await inbox.whole_dead_letters(db, ids)
            refused = {id_: why for id_, letter in found.items() if (why := self._against(id_, letter))}
            done = await dead_letters.replay(db, [id_ for id_ in ids if id_ not in refused], self.user)
        else:
            done = await dead_letters.discard(db, ids, self.user, self.because)
        return done, {letter.id: letter for letter in await dead_letters.standing(db, ids)}, refused

    def _against(self, id_: int, letter: DeadLetter) -> str:
        """Why a record cannot be sent again."""
        from tidegate.events import dead_letter
        from tidegate.events.sink import MAX_MESSAGE_BYTES, message_bytes

        if letter.topic not in self.topics:
            return f"dead letter {id_} is of topic {letter.topic}, which is not read here; is TIDEGATE_TOPIC_PREFIX right?"
        if (found := message_bytes(dead_letter.replay_message(id_, letter))) > MAX_MESSAGE_BYTES:
            return f"dead letter {id_} has {found} bytes, and Kafka takes {MAX_MESSAGE_BYTES} at most; it can only be discarded"
        return ""

    def _sort(self, id_: int, standing: Standing | None, refused: str | None, outcome: Outcome) -> None:
        if standing is None:
            outcome.refused.append(
                Refused(id_, f"there is no dead letter {id_}; `tidegate deadletters list` shows those there are")
            )
        elif standing.state is self.change.state:
            outcome.already.append(id_)
        elif standing.state is not DeadLetterState.OPEN:
            outcome.refused.append(Refused(id_, f"dead letter {id_} was {standing.state} by {standing.closed_by}"))
        else:
            outcome.refused.append(Refused(id_, refused or f"dead letter {id_} is open still; try again"))


def _check(ids: Sequence[int], chosen: Chosen, *, is_all: bool) -> None:
    filtered = chosen != Chosen()
    if ids and (filtered or is_all):
        raise typer.BadParameter("name dead letters, or choose them by options; not both", param_hint="ID")
    if not ids and not filtered and not is_all:
        raise typer.BadParameter(
            "which ones? Name them, or choose by --reason, --topic, --since, --until, or --all", param_hint="ID"
        )


def _tell(change: Change, outcome: Outcome, *, json: bool) -> None:
    if json:
        output.write_json({str(change.state): outcome.done, "already": outcome.already, "refused": outcome.refused})
    else:
        output.write(f"{change.state} {_letters(outcome.done)}")
        if outcome.already:
            output.write(f"{_letters(outcome.already)} {'was' if len(outcome.already) == 1 else 'were'} {change.state} before")
    if outcome.refused:
        rest = f" (and {len(outcome.refused) - 1} more)" if len(outcome.refused) > 1 else ""
        raise RequestError(f"{outcome.refused[0].why}{rest}")


def _letters(ids: Sequence[int]) -> str:
    if len(ids) == 1:
        return f"dead letter {ids[0]}"
    return f"{len(ids) or 'no'} dead letters"


@contextmanager
def _progress(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar on stderr, where that is a terminal and there is something to wait for."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal or total <= AT_ONCE) as progress:
        task = progress.add_task(title, total=total)
        yield lambda done: progress.advance(task, done)
