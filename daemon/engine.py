"""Apply a batch of messages in one transaction: fence, remember, load, decide, perform.

A handler is a module with `load` and `decide`.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any, Protocol
from uuid import UUID
from zlib import crc32

import msgspec

from tidegate.daemon.decision_log import Noted, noted
from tidegate.daemon.lineage import Lineage
from tidegate.daemon.measure import Sample, of_effects, of_events
from tidegate.daemon.perform import perform
from tidegate.daemon.postgres.database import Database
from tidegate.daemon.work import Work, work_of
from tidegate.handlers import (
    attempt_silent,
    attempt_stuck,
    attempt_timed_out,
    attempt_unreachable,
    backfill_acted,
    backfill_changed,
    backfill_due,
    backfill_lagging,
    backfill_requested,
    clear_requested,
    dag_delete_requested,
    dag_file_changed,
    dataset_update_deferred,
    dataset_updated,
    deadline_due,
    end_deferred,
    end_locked_out,
    pause_requested,
    release_requested,
    retry_due,
    run_end_requested,
    run_reconsidered,
    run_requested,
    run_timed_out,
    runs_cancelled,
    schedule_due,
    submission_accepted,
    task_finished,
    task_marked,
    tasks_ready,
)
from tidegate.schemas.dag import ParsedFile
from tidegate.schemas.effect import Effect, RejectMessage
from tidegate.schemas.effect.audit import RecordAudit
from tidegate.schemas.effect.submission import KeepEnd
from tidegate.schemas.message import (
    AttemptSilent,
    AttemptStuck,
    AttemptTimedOut,
    AttemptUnreachable,
    BackfillActed,
    BackfillChanged,
    BackfillDue,
    BackfillLagging,
    BackfillRequested,
    ClearRequested,
    DagDeleteRequested,
    DatasetUpdateDeferred,
    DeadlineDue,
    EndDeferred,
    EndLockedOut,
    Message,
    PauseRequested,
    ReleaseRequested,
    RetryDue,
    RunEndRequested,
    RunReconsidered,
    RunRequested,
    RunsCancelled,
    RunTimedOut,
    ScheduleDue,
    SubmissionAccepted,
    TaskMarked,
    TasksReady,
)
from tidegate.schemas.queries import inbox, outbox
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.inbox import Identity, OffsetMove
from tidegate.schemas.queries.unit_of_work import UnitOfWork
from tidegate.schemas.text import utc
from tidegate.schemas.wire import openlineage
from tidegate.schemas.wire.dead_letter import DeadLetter
from tidegate.schemas.wire.event import POSITION, PRODUCER_SOURCE, DatasetUpdated, Rejection, TaskFinished


class Handler(Protocol):
    """A handler module."""

    @property
    def __name__(self) -> str: ...
    @property
    def load(self) -> Callable[[Db, Any], Awaitable[Any]]: ...
    @property
    def decide(self) -> Callable[[Any, Any], Iterable[Effect]]: ...


HANDLERS: Mapping[type, Handler] = {
    ParsedFile: dag_file_changed,
    DatasetUpdated: dataset_updated,
    DatasetUpdateDeferred: dataset_update_deferred,
    TaskFinished: task_finished,
    EndDeferred: end_deferred,
    EndLockedOut: end_locked_out,
    AttemptSilent: attempt_silent,
    AttemptTimedOut: attempt_timed_out,
    AttemptStuck: attempt_stuck,
    AttemptUnreachable: attempt_unreachable,
    RunRequested: run_requested,
    BackfillRequested: backfill_requested,
    BackfillActed: backfill_acted,
    BackfillChanged: backfill_changed,
    BackfillDue: backfill_due,
    BackfillLagging: backfill_lagging,
    PauseRequested: pause_requested,
    ReleaseRequested: release_requested,
    DagDeleteRequested: dag_delete_requested,
    ClearRequested: clear_requested,
    RunEndRequested: run_end_requested,
    RunsCancelled: runs_cancelled,
    TaskMarked: task_marked,
    RetryDue: retry_due,
    RunReconsidered: run_reconsidered,
    RunTimedOut: run_timed_out,
    ScheduleDue: schedule_due,
    DeadlineDue: deadline_due,
    TasksReady: tasks_ready,
    SubmissionAccepted: submission_accepted,
}

KINDS: Mapping[type, str] = {type_: str(handler.__name__).rpartition(".")[2] for type_, handler in HANDLERS.items()}
"""The name of each message type where the cause of a change is recorded."""


SCOPES: Mapping[type, str] = {
    DatasetUpdated: "data",
    DatasetUpdateDeferred: "data",
    ParsedFile: "file",
    TaskFinished: "end",
    EndLockedOut: "end",
}
"""The scope of the ids of each kind of event; with a slash and the token for ends."""


PATIENT = (
    ParsedFile,
    RunRequested,
    BackfillRequested,
    BackfillActed,
    BackfillChanged,
    PauseRequested,
    ReleaseRequested,
    DagDeleteRequested,
    ClearRequested,
    RunEndRequested,
    RunsCancelled,
    TaskMarked,
)
"""What waits for the rows that other sessions hold: requests come one at a time, and daemons store files in turn.

While rows are known to be held, a file waits no longer than other messages.
"""


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """Messages of one type and their origin.

    `offset_moves` are committed with the messages. `dead_letters` are records that could not be read. `dead_letter_of` makes, by
    index, the dead letter of a message that its handler rejects. `lineage` holds the facts of OpenLineage events. `entries` are
    written to the audit log with what the messages change, if they change something.
    """

    messages: Sequence[Message[Any]]
    offset_moves: Sequence[OffsetMove] = ()
    dead_letters: Sequence[DeadLetter] = ()
    dead_letter_of: Sequence[Callable[[str, str], DeadLetter]] = ()
    lineage: Lineage | None = None
    entries: Sequence[RecordAudit] = ()


class Applied(msgspec.Struct, frozen=True):
    """The result of a batch. `rejected` are the rejected messages that became no dead letter.

    `noted` are its effects for the log of the daemon, `samples` what it means for the metrics. `has_skipped`: it left out rows
    that other sessions hold.
    """

    work: Work
    effects: int
    rejected: tuple[RejectMessage, ...]
    statements: int
    noted: tuple[Noted, ...] = ()
    has_skipped: bool = False
    samples: tuple[Sample, ...] = ()


CONFLICT = "an event with the source {!r} and the id {!r}, but with other data, was recorded{}: this one has no effect"

DERIVED = (PRODUCER_SOURCE, openlineage.SOURCE)
"""The sources whose ids Tidegate derives."""

_encode = msgspec.json.Encoder(order="deterministic").encode

NOTHING = Applied(Work(0), 0, (), 0)


def merged(parts: Sequence[Applied]) -> Applied:
    """The result of a batch that was applied in these parts, at least one."""
    if len(parts) == 1:
        return parts[0]
    return Applied(
        reduce(or_, (part.work for part in parts)),
        sum(part.effects for part in parts),
        tuple(rejected for part in parts for rejected in part.rejected),
        sum(part.statements for part in parts),
        tuple(effect for part in parts for effect in part.noted),
        any(part.has_skipped for part in parts),
        tuple(sample for part in parts for sample in part.samples),
    )


async def apply(database: Database, batch: Batch) -> Applied:
    """Apply the batch exactly once.

    Raises DagFaultError for DAGs whose decisions fail, and FencedError when the committed offsets are not those the batch
    expects. Raises UnavailableError when Postgres does not answer: then the batch is applied or not, and the fence rejects a
    second application. Raises LockedError if another session holds a row that the batch needs.
    """
    run = database.run_for_many if _is_for_many(batch, skips_locked=database.skips_locked) else database.run
    return await run(_apply, batch, database.author, database.writer)


def _is_for_many(batch: Batch, *, skips_locked: bool) -> bool:
    body = batch.messages[0].body if batch.messages else None
    return body is not None and (not isinstance(body, PATIENT) or (isinstance(body, ParsedFile) and skips_locked))


async def _apply(db: Db, batch: Batch, author: UUID | None = None, writer: str | None = None) -> Applied:
    accepted: Sequence[int]
    accepted, conflicts = await _unseen(db, batch)
    duplicates = len(batch.messages) - len(accepted) - len(conflicts)
    if batch.lineage is not None:
        accepted = await batch.lineage.accept(db, accepted)
    messages = [batch.messages[index] for index in accepted]
    effects = await _decide(db, messages)
    rejected = [e for e in effects if type(e) is RejectMessage]
    not_applied = [e.index for e in effects if isinstance(e, RejectMessage | KeepEnd)]
    if again := sorted(id_ for index in not_applied if (id_ := identity(messages[index]))):
        await inbox.forget_ids(db, again)  # a replay must not count as a duplicate
    unit = UnitOfWork(db, KINDS[type(messages[0].body)] if messages else None, author, writer)
    await perform(unit, [*effects, *batch.entries] if batch.entries and len(effects) > len(rejected) else effects)
    dead_letters = list(batch.dead_letters)
    if batch.dead_letter_of:
        dead_letters += [batch.dead_letter_of[index](Rejection.CONFLICTING_ID, why) for index, why in conflicts.items()]
        dead_letters += [batch.dead_letter_of[accepted[e.index]](e.reason, e.message) for e in rejected]
    if dead_letters:
        await outbox.announce(unit, await inbox.insert_dead_letters(await unit.reader(), dead_letters))
    await unit.flush()
    unanswered = () if batch.dead_letter_of else tuple(rejected)
    work = work_of(effects) | (Work.RELAY if dead_letters else Work.NONE)
    outcomes = {"recorded": len(accepted) - len(rejected), "duplicate": duplicates, "dead_letter": len(dead_letters)}
    samples = (*of_effects(effects), *_of_records(batch, outcomes))
    return Applied(work, len(effects), unanswered, db.statements, noted(effects), bool(db.skipped), samples)


def _of_records(batch: Batch, outcomes: Mapping[str, int]) -> Iterable[Sample]:
    """The records of a batch, which are of one topic. A batch of internal messages has none."""
    return of_events(batch.offset_moves[0].key.rpartition("/")[0], outcomes) if batch.offset_moves else ()


async def rehearse(db: Db, messages: Sequence[Message[Any]]) -> list[Effect]:
    """Decide and perform in a transaction whose caller undoes it: no id is recorded, and no work announced."""
    effects = await _decide(db, messages)
    unit = UnitOfWork(db, KINDS[type(messages[0].body)], None, None)
    await perform(unit, effects)
    await unit.flush()
    return effects


async def _unseen(db: Db, batch: Batch) -> tuple[list[int], Mapping[int, str]]:
    """The indexes of the messages whose id is new, each id once; and by index, why others contradict the first with their id.

    Raises FencedError.
    """
    first: dict[Identity, int] = {}
    ids = [identity(message) for message in batch.messages]
    for index, id_ in enumerate(ids):
        if id_ is not None:
            first.setdefault(id_, index)
    contents = [content(message) for message in batch.messages]
    new = sorted(first)
    known = await inbox.record_batch(db, batch.offset_moves, new, [contents[first[id_]] for id_ in new])
    accepted = [index for index, id_ in enumerate(ids) if id_ is None or (first[id_] == index and id_ not in known)]
    if len(accepted) == len(ids):
        return accepted, {}
    # Read by a statement of its own, which sees what another transaction has just committed.
    before = await inbox.recorded(db, known) if known else {}
    taken = {id_: before[id_].content if id_ in before else contents[index] for id_, index in first.items()}
    times = {id_: f" at {utc(found.received_at)}" for id_, found in before.items()}
    return accepted, {
        index: CONFLICT.format(id_.source, id_.id, times.get(id_, ""))
        for index, id_ in enumerate(ids)
        if id_ is not None and contents[index] is not None and taken[id_] not in (None, contents[index])
    }


def content(message: Message[Any]) -> int | None:
    """A checksum of the data of a dataset event, the same for any order of its keys. None for other messages.

    The events of tasks and of OpenLineage have no checksum, because their ids are derived: a task that runs again may say more.
    Neither have events that are identified by their position.
    """
    id_, body = message.id, message.body
    update = body.update if isinstance(body, DatasetUpdateDeferred) else body
    if id_ is None or not isinstance(update, DatasetUpdated):
        return None
    if id_.source in DERIVED or id_.source.startswith(POSITION):
        return None
    return crc32(_encode((update.uri, update.extra))) - 2**31


def identity(message: Message[Any]) -> Identity | None:
    """The deduplication key of a message, the same for its redeliveries; None for internal messages."""
    id_, body = message.id, message.body
    if id_ is None:
        return None
    scope = SCOPES[type(body)]
    end = body.end if isinstance(body, EndLockedOut) else body
    if isinstance(end, TaskFinished):
        scope += f"/{end.token or ''}"
    return Identity(id_.source, id_.id, scope)


async def _decide(db: Db, messages: Sequence[Message[Any]]) -> list[Effect]:
    if not messages:
        return []
    handler = HANDLERS[type(messages[0].body)]
    return list(handler.decide(messages, await handler.load(db, messages)))
