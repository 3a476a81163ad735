"""The seeded faults that a schedule may notice: those of the storms that are about what is simulated, and a few of its own."""

from collections.abc import Callable, Collection, Mapping, Sequence
from uuid import UUID

import anyio
import msgspec

from tests.simulation.content_faults import CONTENT_FAULTS
from tests.simulation.dags import PAST
from tests.storms import faults as storms
from tests.storms.limits import faults as limits
from tests.storms.replace import replace, without
from tidegate.daemon import containment, engine, leases
from tidegate.daemon.duties import outbox_sinks as sinks
from tidegate.daemon.duties import relay
from tidegate.daemon.duties.dispatch import Dispatcher
from tidegate.daemon.duties.outbox_sinks import OutboxSinks
from tidegate.daemon.duties.submission_specs import Step
from tidegate.daemon.engine import Applied, Batch
from tidegate.daemon.intake import ingest
from tidegate.daemon.leases import HeldLeases
from tidegate.daemon.postgres.database import Database
from tidegate.daemon.postgres.low_watermark import OutboxWatermark
from tidegate.daemon.settings import Settings
from tidegate.daemon.spark.contract import Handle
from tidegate.daemon.wake import Signal
from tidegate.handlers import backfill_acted
from tidegate.handlers.backfills import step
from tidegate.schemas.backfill import BackfillActivity, BackfillView
from tidegate.schemas.queries import backfills, inbox, runs, submissions
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.inbox import Identity, OffsetMove
from tidegate.schemas.queries.submissions import ClaimedAttempt


def epoch_not_compared() -> None:
    """A batch commits although another daemon owns the partition."""
    for statement in ("record_batch", "move_offsets"):
        without(inbox, statement, "AND lease.epoch = batch.epoch")


def offsets_moved_apart() -> None:
    """The offsets are moved in a transaction of their own, as when Kafka keeps them and they are committed first."""
    original = engine.apply

    async def apply(database: Database, batch: Batch) -> Applied:
        await database.run(inbox.record_batch, batch.offset_moves, ())
        return await original(database, msgspec.structs.replace(batch, offset_moves=()))

    replace(containment, "apply", apply)


def ids_not_remembered() -> None:
    """An event that comes again is new."""
    original = inbox.record_batch

    async def record_batch(
        db: Db, moves: Sequence[OffsetMove], ids: Sequence[Identity], contents: Sequence[int | None] = ()
    ) -> set[Identity]:
        await original(db, moves, ids, contents)
        return set()

    replace(inbox, "record_batch", record_batch)


def runs_not_locked() -> None:
    """Two transactions move the tasks of one run."""
    without(runs, "lock", "FOR NO KEY UPDATE")
    without(runs, "lock_of_attempts", "FOR NO KEY UPDATE")


INTENTS = """
    SELECT submission_id FROM submission
    WHERE state = 'intent' AND backend = $1 AND desired_state = 'run' AND submission_id <> ALL ($3::uuid[])
    ORDER BY created_at, dag_run_id, task_index
    LIMIT $2
"""
CLAIM = """
    UPDATE submission SET state = 'submitting', owner = $1, host = $2, submitted_at = clock_timestamp()
    WHERE submission_id = ANY ($3::uuid[])
    RETURNING
        submission_id, dag_run_id, task_index, try_number, attempt_token((SELECT secret FROM installation), submission_id),
        kill_reason
"""


def intents_not_locked() -> None:
    """Two daemons claim the same intent. In two statements, since the simulation interleaves statements, not parts of one."""

    async def claim_intents(
        db: Db, owner: UUID, host: str, backend: str, limit: int, excluded: Collection[UUID], _clusters: Collection[str]
    ) -> list[ClaimedAttempt]:
        intents = [row[0] for row in await db.fetch(INTENTS, backend, limit, list(excluded))]
        return [ClaimedAttempt(*row) for row in await db.fetch(CLAIM, owner, host, intents)] if intents else []

    replace(submissions, "claim_intents", claim_intents)


def stale_daemon_submits() -> None:
    """A daemon that was frozen goes on with what others have taken over."""

    def _stop_if_stale(_self: Dispatcher, _submission_id: UUID) -> None: ...

    replace(Dispatcher, "_stop_if_stale", _stop_if_stale)


def staleness_asked_before_events_are_read() -> None:
    """A daemon that was frozen while it read the events of a run submits what others have taken over: so it was once."""
    stop_if_stale, submit = Dispatcher._stop_if_stale, Dispatcher.submit

    async def submit_unless_stale(self: Dispatcher, step: Step) -> Handle | None:
        stop_if_stale(self, step.submission_id)
        return await submit(self, step)

    stale_daemon_submits()
    replace(Dispatcher, "submit", submit_unless_stale)


def found_or_not_at_once() -> None:
    """What is still under way to the backend is taken for lost."""

    async def find(self: Dispatcher, submission_id: UUID, _within_s: float) -> Handle | None:
        return await self.backend.find(submission_id)

    replace(Dispatcher, "find", find)


def outbox_read_by_cursor() -> None:
    """What was written by a transaction that took longer than a later one is passed over."""

    def lower_bound(self: OutboxWatermark, _held: Mapping[int, int]) -> int:
        return self._oldest

    def advance(self: OutboxWatermark, oldest: int | None) -> None:
        self._oldest = max(self._oldest, oldest or 0)

    replace(OutboxWatermark, "lower_bound", lower_bound)
    replace(OutboxWatermark, "advance", advance)


def relay_not_fenced() -> None:
    """A request of the relay is appended however late it arrives."""

    def outbox_sinks(settings: Settings) -> OutboxSinks:
        new_sink = vars(sinks)["OutboxSink"]  # that of the simulation
        return OutboxSinks(lambda _: new_sink(settings.kafka_servers), settings.topic_prefix)

    replace(relay, "outbox_sinks", outbox_sinks)


def rows_of_lost_leases_passed_over() -> None:
    """A shard whose lease was lost and claimed again is read from where no row was found meanwhile: so it was once."""

    def lower_bound(self: OutboxWatermark, held: Mapping[int, int]) -> int:
        if held.keys() - self._held.keys():
            self._oldest = 0
        self._held = held
        return min(self._oldest, self.committed.at)

    replace(OutboxWatermark, "lower_bound", lower_bound)


def read_inside_the_group() -> None:
    """A failure in a task group raises an exception group, which no caller handles: once a bug, which ended the daemon."""

    async def _resolve_batch(self: Dispatcher, claims: Sequence[ClaimedAttempt]) -> None:
        async with anyio.create_task_group() as tg:
            for step in await self._next_steps(claims):
                tg.start_soon(self._submit_one, self.resolve, step)

    replace(Dispatcher, "_resolve_batch", _resolve_batch)


def renewed_after_leaving() -> None:
    """A duty that reads where it stands has the daemon come back that has just left: so it was once."""

    replace(ingest, "renew", leases._renew)


def end_not_shielded() -> None:
    """What a daemon does at its end is cut off by that: it leaves without a word."""

    async def release(_database: Database, held_leases: HeldLeases) -> None:
        held_leases.released = True

    replace(leases, "release", release)


def only_signals_heard() -> None:
    """A duty that missed a signal does not poll."""

    async def wait(self: Signal, _timeout_s: float) -> bool:
        await self._event.wait()
        self._event = anyio.Event()
        return True

    replace(Signal, "wait", wait)


def active_runs_of_backfills_not_counted() -> None:
    """A backfill does not know how many of its runs are running."""

    async def activity(_db: Db, sequential: Mapping[int, bool]) -> Mapping[int, BackfillActivity]:
        return {id_: BackfillActivity() for id_ in sequential}

    replace(backfills, "activity", activity)


def backfills_end_with_their_planning() -> None:
    """A backfill ends once its dates are planned, whatever their runs do: so did a peer."""

    def unfinished(_backfill: BackfillView) -> int:
        return 0

    replace(step, "unfinished", unfinished)


def cancels_of_backfills_fail() -> None:
    """A decision about a request of a user fails with an error that is no refusal."""

    def cancelled(_backfill: BackfillView, *, kills: bool) -> BackfillView:
        raise ArithmeticError(kills)

    replace(backfill_acted, "cancelled", cancelled)


STORMS = (
    "offset_not_compared",
    "queue_rows_not_locked",
    "queue_emptied_by_dag",
    "outbox_deleted_before_ack",
    "submit_without_find",
)
LIMITS = (
    "pool_rows_not_locked",
    "slots_not_summed",
    "installation_not_locked",
    "admissions_not_counted",
    "instances_not_counted",
    "runs_not_counted",
)

FAULTS: Mapping[str, Callable[[], None]] = {
    **{name: storms.FAULTS[name] for name in STORMS},
    **{name: limits.LIMIT_FAULTS[name] for name in LIMITS},
    **CONTENT_FAULTS,
    **{
        fault.__name__: fault
        for fault in (
            epoch_not_compared,
            offsets_moved_apart,
            ids_not_remembered,
            runs_not_locked,
            intents_not_locked,
            stale_daemon_submits,
            staleness_asked_before_events_are_read,
            found_or_not_at_once,
            outbox_read_by_cursor,
            relay_not_fenced,
            rows_of_lost_leases_passed_over,
            read_inside_the_group,
            renewed_after_leaving,
            end_not_shielded,
            only_signals_heard,
            active_runs_of_backfills_not_counted,
            backfills_end_with_their_planning,
            cancels_of_backfills_fail,
        )
    },
}

AIMED: Mapping[str, Sequence[str]] = {
    "queue_rows_not_locked": ("one", "each", "either"),
    "queue_emptied_by_dag": ("each", "limited"),
    "pool_rows_not_locked": ("crowd",),
    "slots_not_summed": ("crowd",),
    "installation_not_locked": ("pools",),
    "instances_not_counted": ("single",),
    "runs_not_counted": ("one", "each"),
    "ids_not_remembered": ("one", "each"),
    "staleness_asked_before_events_are_read": ("crowd", "limited", "pools"),
    "all_of_met_by_any": ("both",),
    "outlets_of_runs_not_told_apart": ("chain",),
    "outlet_extras_not_told": ("chain",),
    "others_superseded": ("each", "single", "limited"),
    "active_runs_of_backfills_not_counted": (PAST,),
    "backfills_end_with_their_planning": (PAST,),
    "cancels_of_backfills_fail": (PAST,),
}
"""The DAGs that a fault has to do with, or that have many attempts at once; those of other faults are drawn from all."""
