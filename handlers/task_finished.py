"""Attempts ended. Each end counts once; late, repeated and unknown ones change nothing and are recorded.

The end of an attempt whose DAG or run another session holds is deferred: the clock applies it.
"""

from collections.abc import Iterator, Sequence
from uuid import UUID

import msgspec

from tidegate.handlers import attempt_ends
from tidegate.handlers.admission.select import run_of
from tidegate.handlers.attempt_ends import ATTEMPT_ENDED, State, already_ended, end_attempts, end_superseded, superseded
from tidegate.schemas.effect import Effect, RejectMessage
from tidegate.schemas.effect.submission import DeferEnd, IgnoreFinish, KeepEnd
from tidegate.schemas.message import Message
from tidegate.schemas.queries.db import Db
from tidegate.schemas.wire.event import EventId, Rejection, TaskFinished

NOT_ON_RECORD = "the attempt is not on record: its run was deleted, or the database was restored or has lost commits"


async def load(db: Db, messages: Sequence[Message[TaskFinished]]) -> State:
    return await attempt_ends.load(db, [message.body for message in messages])


def decide(messages: Sequence[Message[TaskFinished]], state: State) -> Iterator[Effect]:
    accepted: list[TaskFinished] = []
    seen: set[UUID] = set()
    for index, message in enumerate(messages):
        finish = message.body
        if rejection := _rejection(finish, state):
            yield RejectMessage(*rejection, index=index)
            continue
        if finish.submission_id not in state.submissions:
            yield _keep(finish, index)
            yield _ignore(message, NOT_ON_RECORD)
            continue
        if finish.submission_id in state.locked_out:
            yield _defer(message, state)
            continue
        if reason := ATTEMPT_ENDED if finish.submission_id in seen else already_ended(finish, state):
            yield _ignore(message, reason)
        elif reason := superseded(finish, state):
            yield _ignore(message, reason)
            yield from end_superseded(finish, state)
        else:
            accepted.append(finish)
        seen.add(finish.submission_id)
    yield from end_attempts(accepted, state)


def _rejection(finish: TaskFinished, state: State) -> tuple[Rejection, str] | None:
    """Why the end becomes a dead letter: its DAG is held, its attempt is unknown, or another program sent it.

    The token of an attempt without a row is known: it was one of this installation, before the database lost commits.
    """
    if dag_id := state.held.get(finish.submission_id):
        return Rejection.DAG_HELD, f"DAG {dag_id!r} is held; `tidegate dags why-not {dag_id}` says why"
    attempt = state.submissions.get(finish.submission_id)
    if attempt is None and finish.token == state.tokens.get(finish.submission_id):
        return None
    if attempt is None:
        return Rejection.UNKNOWN_ATTEMPT, f"no attempt has the submission id {finish.submission_id}"
    if (finish.token or "") == attempt.token:
        return None
    which = "another token" if finish.token else "no token"
    problem = f"the end of attempt {finish.submission_id} has {which}; only the process of the attempt has the right one"
    return Rejection.WRONG_TOKEN, problem


def _keep(finish: TaskFinished, index: int) -> KeepEnd:
    """Keep the end for an attempt that gets the same id again."""
    token, body = finish.token or "", msgspec.to_builtins(finish)
    return KeepEnd(finish.submission_id, token, run_of(finish.submission_id), body, index)


def _defer(message: Message[TaskFinished], state: State) -> DeferEnd:
    id_ = message.id or EventId("", "")
    dag_run_id = state.submissions[message.body.submission_id].dag_run_id
    body = msgspec.json.encode(message.body)
    return DeferEnd(message.body.submission_id, dag_run_id, id_.source, id_.id, message.at, body, state.now)


def _ignore(message: Message[TaskFinished], reason: str) -> IgnoreFinish:
    id_ = message.id or EventId("", "")
    return IgnoreFinish(message.body.submission_id, id_.source, id_.id, message.body.outcome, reason)
