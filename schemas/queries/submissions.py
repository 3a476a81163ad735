"""Submissions: one row per attempt that runs on a backend, which is also the history of attempts."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from tidegate.schemas.effect.submission import EndSubmission
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.sql import load
from tidegate.schemas.state import KillCause, SubmissionState, TaskState
from tidegate.schemas.view import Instance, SubmissionView, TaskKey

_SQL = load("submissions")


ENDED = tuple(name for name in EndSubmission.__struct_fields__ if name != "backend")

Attempts = Mapping[UUID, SubmissionView]
Instances = Mapping[TaskKey, Instance]


class AttemptRef(msgspec.Struct, frozen=True):
    """The run and task of an attempt. The index of its task changes only with the version of its run."""

    dag_run_id: int
    task_index: int
    try_number: int
    dag_id: str
    version_id: int


class ClaimedAttempt(msgspec.Struct, frozen=True):
    """An attempt that this daemon submits as it was when claimed; with a `kill_reason` the daemon only searches for it.

    `token` proves its end.
    """

    submission_id: UUID
    dag_run_id: int
    task_index: int
    try_number: int
    token: str
    kill_reason: str | None = None


class Submitting(NamedTuple):
    """An attempt that is being submitted, with the reason of a kill request.

    `ended`: it ran before the database lost its row, and this is how it ended.
    """

    kill_reason: str | None
    ended: dict[str, Any] | None


class KilledIntent(msgspec.Struct, frozen=True):
    """An attempt with a kill request before any submit."""

    submission_id: UUID
    token: str
    kill_reason: str


class Running(msgspec.Struct, frozen=True):
    """An attempt whose handle is recorded. `heartbeat_age_s` is the age of its last recorded heartbeat.

    `is_held`: its DAG is held; its end waits for the release.
    """

    submission_id: UUID
    token: str
    backend: str
    handle: dict[str, Any]
    desired_state: str
    heartbeat_age_s: float
    is_held: bool = False


async def refs(db: Db, ids: Collection[UUID]) -> Mapping[UUID, AttemptRef]:
    """The runs and tasks of these attempts; unknown ones are left out. Takes no lock."""
    return {row[0]: AttemptRef(*row[1:]) for row in await db.fetch(_SQL["refs"], list(ids))}


async def read_with_tasks(db: Db, ids: Collection[UUID], others: Collection[TaskKey] = ()) -> tuple[Attempts, Instances]:
    """These attempts with their task instances, and `others`, all of locked runs."""
    attempts: dict[UUID, SubmissionView] = {}
    instances: dict[TaskKey, Instance] = {}
    keys = zip(*others, strict=True) if others else ((), ())
    for run, index, state, *rest in await db.fetch(_SQL["read_with_tasks"], list(ids), *keys):
        *counts, id_, try_number, attempt_state, token, kill_reason, kill_cause, before, host, backend = rest
        instances[run, index] = Instance(index, TaskState(state), *counts)
        if id_ is not None:
            attempts[id_] = SubmissionView(
                submission_id=id_,
                dag_run_id=run,
                task_index=index,
                try_number=try_number,
                state=SubmissionState(attempt_state),
                token=token,
                kill_reason=kill_reason,
                kill_cause=kill_cause and KillCause(kill_cause),
                killed_before=before,
                host=host,
                backend=backend,
            )
    return attempts, instances


def end_columns(effects: Sequence[EndSubmission]) -> Sequence[Sequence[Any]]:
    """Without the backend, which the row of the attempt has already."""
    return [[getattr(effect, name) for effect in effects] for name in ENDED]


async def killed_intents(db: Db, limit: int = 1000) -> list[KilledIntent]:
    """Attempts with a kill request before any submit."""
    return [KilledIntent(*row) for row in await db.fetch(_SQL["killed_intents"], limit)]


async def claim_intents(
    db: Db,
    owner: UUID,
    host: str,
    backend: str,
    limit: int,
    excluded: Collection[UUID] = (),
    clusters: Collection[str] = (),
) -> list[ClaimedAttempt]:
    """Claim up to `limit` intents whose tasks name no cluster or one of these, without `excluded`. No two daemons claim one."""
    found = await db.fetch(_SQL["claim_intents"], owner, host, backend, limit, list(excluded), list(clusters))
    return [ClaimedAttempt(*row) for row in found]


async def earlier(db: Db, attempts: Sequence[ClaimedAttempt], limit: int = 3) -> Mapping[UUID, tuple[UUID, ...]]:
    """For each attempt the tries that began and did not succeed, of the last `limit` before it."""
    again = [(it.submission_id, it.dag_run_id, it.task_index, it.try_number) for it in attempts if it.try_number > 1]
    found: dict[UUID, tuple[UUID, ...]] = {}
    for attempt, before in await db.fetch(_SQL["earlier"], *zip(*again, strict=True), limit) if again else ():
        found[attempt] = (*found.get(attempt, ()), before)
    return found


async def give_back(db: Db, submission_id: UUID, owner: UUID, cluster: str | None = None) -> None:
    """Make a claim of this owner an intent again, for hosts that know its `cluster`; not if it has ended or has another owner."""
    await db.execute(_SQL["give_back"], submission_id, owner, cluster)


async def claim_abandoned(
    db: Db, owner: UUID, host: str, backend: str, seen_by: str | None, excluded: Collection[UUID]
) -> list[ClaimedAttempt]:
    """Claim submits in progress whose daemon is not live, and those of `owner`, except these; the oldest first.

    `seen_by`: the only host that sees the submissions of the backend; None if every host does.
    """
    rows = await db.fetch(_SQL["claim_abandoned"], owner, host, backend, seen_by, list(excluded))
    return [ClaimedAttempt(*row) for row in rows]


async def strays(db: Db, tokens: Mapping[UUID, str | None]) -> Mapping[UUID, dict[str, Any] | None]:
    """Of these running submissions, those whose attempt has ended, with the recorded handle. Those of another installation, as
    their tokens tell, are none.
    """
    return {row[0]: row[1] for row in await db.fetch(_SQL["strays"], list(tokens), list(tokens.values()))}


async def recorded(db: Db, ids: Collection[UUID], owner: UUID) -> dict[UUID, float | None]:
    """The attempts that were accepted for this owner, without a kill request, with the seconds that their tasks were ready."""
    return {row[0]: row[1] for row in await db.fetch(_SQL["recorded"], list(ids), owner)}


async def submitting(db: Db, ids: Collection[UUID]) -> Mapping[UUID, Submitting]:
    """By id; attempts that are not being submitted any more are left out."""
    return {row[0]: Submitting(*row[1:]) for row in await db.fetch(_SQL["submitting"], list(ids))}


async def running(db: Db, backends: Sequence[str], host: str, everywhere: Sequence[str]) -> list[Running]:
    """The accepted attempts that this host can observe: its own ones, and all of the backends `everywhere`."""
    return [Running(*row) for row in await db.fetch(_SQL["running"], backends, host, everywhere)]


async def open_on_host(db: Db, host: str) -> frozenset[UUID]:
    """The attempts that a host submits or has submitted, and that have not ended."""
    return frozenset(row[0] for row in await db.fetch(_SQL["open_on_host"], host))


async def record_heartbeats(db: Db, heartbeats: Sequence[tuple[UUID, float]]) -> None:
    """Record the last heartbeats, given as ages in seconds."""
    await db.execute(_SQL["record_heartbeats"], *zip(*heartbeats, strict=True))


async def silent(db: Db, silent_s: float, *, among: Collection[UUID] | None = None, limit: int = 1000) -> list[UUID]:
    """Attempts without a heartbeat for `silent_s`; all, or those of `among`."""
    ids = None if among is None else list(among)
    return [row[0] for row in await db.fetch(_SQL["silent"], silent_s, ids, limit)]


async def unreachable(
    db: Db, absent_s: float, shared: Sequence[str], *, among: Collection[UUID] | None = None, limit: int = 1000
) -> list[UUID]:
    """Attempts that were submitted `absent_s` ago and not accepted, on hosts without a live daemon; all, or those of `among`.

    `shared` are the backends whose attempts every host sees.
    """
    ids = None if among is None else list(among)
    return [row[0] for row in await db.fetch(_SQL["unreachable"], absent_s, shared, ids, limit)]


async def stuck(db: Db, queued_s: float, limit: int = 1000) -> list[UUID]:
    """Attempts that were not submitted within `queued_s`."""
    return [row[0] for row in await db.fetch(_SQL["stuck"], queued_s, limit)]
