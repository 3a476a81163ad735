"""What is next for each claim: the submission of its attempt, or the end of the attempt.

A user may clear or cancel the run after the claim, and change its version. Each of these requests a kill, which is read last:
without a kill request, a submission was built from the run as it was when claimed.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

import asyncpg
import msgspec
import structlog

from tidegate.daemon.containment import bisect, halves, read_or_hold
from tidegate.daemon.postgres.database import Database, describe
from tidegate.daemon.spark.contract import SubmissionSpec
from tidegate.schemas.error import POSTGRES, DagFaultError, TidegateError, TooSlowError, UnavailableError
from tidegate.schemas.graph import Graph, element_of
from tidegate.schemas.queries import sources, submissions, versions
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.results import Element, ResultsTooLargeError, elements_for, results_for
from tidegate.schemas.queries.sources import RunSource
from tidegate.schemas.queries.submissions import ClaimedAttempt, Submitting
from tidegate.schemas.view import TaskKey
from tidegate.schemas.wire.event import TaskFinished

log = structlog.get_logger()

Step = SubmissionSpec | TaskFinished
Built = SubmissionSpec | Exception

GONE = Element(None, None)


class ElementError(TidegateError):
    """The element of a mapped task is gone from its list."""


async def next_steps(database: Database, claims: Sequence[ClaimedAttempt]) -> list[Step]:
    """The next steps of the claims, in their order; without attempts that have ended, or cannot be read now.

    Raises UnavailableError.
    """
    built = await _build(database, [claim for claim in claims if claim.kill_reason is None])
    open_ = await database.autocommit(submissions.submitting, [claim.submission_id for claim in claims])
    still = [(claim, open_[claim.submission_id]) for claim in claims if claim.submission_id in open_]
    steps = [_next_step(claim, now, built.get(claim.submission_id)) for claim, now in still]
    return [step for step in steps if step is not None]


def _next_step(claim: ClaimedAttempt, now: Submitting, built: Built | None) -> Step | None:
    """None for a claim that could not be read."""
    if now.ended is not None:
        return msgspec.convert(now.ended, TaskFinished)
    if (reason := now.kill_reason or claim.kill_reason) is not None:
        return _killed(claim, reason)
    return _step(claim, built) if built is not None else None


def _killed(claim: ClaimedAttempt, reason: str) -> TaskFinished:
    return TaskFinished(submission_id=claim.submission_id, token=claim.token, outcome="killed", reason=reason)


def _step(claim: ClaimedAttempt, built: Built) -> Step:
    """Submit the attempt, or fail it where its submission cannot be built."""
    if isinstance(built, SubmissionSpec):
        return built
    reason = str(built)
    if not isinstance(built, TidegateError):
        reason = f"its submission could not be built: {type(built).__name__}: {describe(built)}"
        log.error("submission_not_built", submission_id=str(claim.submission_id), exc_info=built)
    return TaskFinished(submission_id=claim.submission_id, token=claim.token, outcome="failed", reason=reason)


async def _build(database: Database, claims: Sequence[ClaimedAttempt]) -> dict[UUID, Built]:
    """The submissions of the claims, or why they cannot be built. Claims whose rows cannot be read are found by bisection.

    A claim that is too slow alone is left out, so that it stops no other; so is one whose version cannot be read: its DAG is
    held. Raises UnavailableError also for a statement that Postgres refuses whatever its rows: no attempt is at fault then.
    """
    if not claims:
        return {}

    async def build(part: Sequence[ClaimedAttempt]) -> dict[UUID, Built]:
        try:
            built = await database.autocommit(submission_specs, part)
        except TooSlowError as error:
            if halves(part) is not None:
                raise
            log.warning("submission_too_slow", submission_id=str(part[0].submission_id), error=str(error))
            return {}
        except asyncpg.SyntaxOrAccessError as error:
            raise UnavailableError(f"Postgres refuses to read submissions: {describe(error)}", server=POSTGRES) from error
        return {claim.submission_id: each for claim, each in zip(part, built, strict=True)}

    async def contain(part: Sequence[ClaimedAttempt], error: Exception) -> dict[UUID, Built]:
        if isinstance(error, DagFaultError):
            return await read_or_hold(database, error, partial(build, part)) or {}
        return {part[0].submission_id: error}

    return {id_: built for part in await bisect(claims, build, contain) for id_, built in part.items()}


async def submission_specs(db: Db, claims: Sequence[ClaimedAttempt]) -> list[Built]:
    """The submissions of the claims, in their order, or why one cannot be built: the task, the run, its events and results."""
    run_sources = await sources.of_runs(db, {claim.dag_run_id for claim in claims})
    graphs = await versions.graphs(db, {source.version_id for source in run_sources.values()})
    parts = [Parts(claim, source := run_sources[claim.dag_run_id], graphs[source.version_id]) for claim in claims]
    instances = [(part.claim.dag_run_id, part.graph, part.claim.task_index) for part in parts if part.may_have_results]
    results, elements = await results_for(db, instances), await elements_for(db, instances)
    earlier = await submissions.earlier(db, claims)
    return [
        _spec(part, results.get(part.key, {}), elements.get(part.key, GONE), earlier.get(part.claim.submission_id, ()))
        for part in parts
    ]


class Parts(NamedTuple):
    """A claim with the source and the graph of its run's version."""

    claim: ClaimedAttempt
    source: RunSource
    graph: Graph

    @property
    def key(self) -> TaskKey:
        return self.claim.dag_run_id, self.claim.task_index

    @property
    def may_have_results(self) -> bool:
        """A mapped task has a result, a list, even if no instance returned a value."""
        return self.source.has_results or self.graph.mapped


def _spec(parts: Parts, results: Mapping[str, Any] | ResultsTooLargeError, found: Element, earlier: tuple[UUID, ...]) -> Built:
    claim, source, graph = parts
    if isinstance(results, ResultsTooLargeError):
        return results
    try:
        task, item = graph.node(claim.task_index).task, _item(parts, found)
    except (LookupError, ElementError) as error:
        return error
    element = element_of(claim.task_index)
    instance = {"task_id": task.task_id, "try_number": claim.try_number, "map_index": element, "item": item}
    return SubmissionSpec(
        submission_id=claim.submission_id,
        token=claim.token,
        try_number=claim.try_number,
        task=task,
        run=msgspec.structs.replace(source.context, results=results, **instance),
        dag_path=source.file.path,
        source=source.file.source,
        modules=source.file.modules,
        events_of=source.events_of,
        earlier=earlier,
    )


def _item(parts: Parts, found: Element) -> Any:
    """The element that an instance of a mapped task works on; None for other tasks. Raises ElementError."""
    node, element = parts.graph.node(parts.claim.task_index), element_of(parts.claim.task_index)
    if element is None or node.over is None:
        return None
    over = parts.graph.nodes[node.over].task.task_id
    if found.length is not None and element < found.length:
        return found.value
    change = "was dropped when a user cleared that task" if found.length is None else f"has only {found.length} elements now"
    raise ElementError(f"its list, which task {over!r} returned, {change}; clear {node.task.task_id!r} as well")
