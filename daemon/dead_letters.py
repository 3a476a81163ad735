"""Replays and discards dead letters: what the command line, the API and the pages share. Slow to import."""

from collections.abc import Callable, Mapping, Sequence

from tidegate.daemon.postgres.database import Database
from tidegate.daemon.read_model.dead_letter import BATCH_LETTERS, Change, Outcome, Refused
from tidegate.daemon.request import notify_daemons
from tidegate.daemon.settings import Settings
from tidegate.daemon.work import Work
from tidegate.events import dead_letter
from tidegate.events.sink import MAX_SENT_BYTES, record_bytes
from tidegate.schemas.effect.audit import OF_DEAD_LETTER, object_name
from tidegate.schemas.error import RejectedError
from tidegate.schemas.queries import audit_log, dead_letters, inbox
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.dead_letters import DeadLetterState, DeadLetterStatus
from tidegate.schemas.wire.dead_letter import DeadLetter
from tidegate.schemas.wire.envelope import decode
from tidegate.schemas.wire.event import ADVICE, INCOMING, Rejection


class Changes:
    """One change of many dead letters."""

    def __init__(self, settings: Settings, user: str, change: Change, because: str = "") -> None:
        self.change = change
        self.because = because
        self.user = user
        self.kinds = {settings.topic(kind): kind for kind in INCOMING}

    async def apply(self, database: Database, ids: Sequence[int], advance: Callable[[int], None] = lambda _: None) -> Outcome:
        """Change these. `advance` gets the size of each batch that is done."""
        outcome = Outcome()
        for start in range(0, len(ids), BATCH_LETTERS):
            batch = ids[start : start + BATCH_LETTERS]
            part = await database.run(self._apply_batch, batch)
            outcome.done += part.done
            outcome.already += part.already
            outcome.refused += part.refused
            advance(len(batch))
        if self.change is Change.REPLAY and outcome.done:
            await notify_daemons(database, Work.RELAY)
        return outcome

    async def _apply_batch(self, db: Db, ids: Sequence[int]) -> Outcome:
        """Each change and each refusal is an entry of the audit log."""
        refused: Mapping[int, str] = {}
        if self.change is Change.REPLAY:
            refused = await self.refusals(db, ids)
            done = await dead_letters.replay(db, [id_ for id_ in ids if id_ not in refused], self.user)
        else:
            done = await dead_letters.discard(db, ids, self.user, self.because)
        outcome, standing = Outcome(done), {letter.id: letter for letter in await dead_letters.status(db, ids)}
        for id_ in (id_ for id_ in ids if id_ not in done):
            self._explain(id_, standing.get(id_), refused.get(id_), outcome)
        entries = {
            object_name(OF_DEAD_LETTER, id=it.id): {"would_have": f"{self.change.state} a dead letter", "reason": it.why}
            for it in outcome.refused
        }
        await audit_log.record_all(db, self.user, audit_log.REFUSED, entries)
        return outcome

    async def refusals(self, db: Db, ids: Sequence[int]) -> dict[int, str]:
        """By dead letter that cannot be replayed, the reason. Reads whole records."""
        found = await inbox.whole_dead_letters(db, ids)
        return {id_: why for id_, letter in found.items() if (why := self._refusal(id_, letter))}

    def _refusal(self, id_: int, letter: DeadLetter) -> str:
        """Why a record cannot be replayed; empty if it can."""
        if (kind := self.kinds.get(letter.topic)) is None:
            return f"dead letter {id_} is of topic {letter.topic}, which the daemons do not read; check TIDEGATE_TOPIC_PREFIX"
        record = dead_letter.replay_record(id_, letter)
        if (size := record_bytes(record)) > MAX_SENT_BYTES:
            return f"dead letter {id_} has {size} bytes, and at most {MAX_SENT_BYTES} are possible; discard it"
        try:
            decode(kind, record.headers, record.value)
        except RejectedError as error:
            return f"dead letter {id_} would be refused again ({error}): {ADVICE[Rejection(error.reason)]}"
        return ""

    def _explain(self, id_: int, standing: DeadLetterStatus | None, refused: str | None, outcome: Outcome) -> None:
        if standing is None:
            outcome.refused.append(Refused(id_, f"there is no dead letter {id_}"))
        elif standing.state is self.change.state:
            outcome.already.append(id_)
        elif standing.state is not DeadLetterState.OPEN:
            outcome.refused.append(Refused(id_, f"dead letter {id_} was {standing.state} by {standing.closed_by}"))
        else:
            outcome.refused.append(Refused(id_, refused or f"dead letter {id_} is still open; try again"))
