"""A backfill cascades along datasets: consumers of what it has rewritten run again, stage by stage."""

from collections.abc import Iterator, Sequence, Set
from datetime import datetime
from graphlib import CycleError, TopologicalSorter

import msgspec

from tidegate.handlers.backfills.dates import why_no_run
from tidegate.schemas.backfill import BackfillView, Consumer, Outlets, Reprocess, default_active_runs
from tidegate.schemas.effect.backfill import InsertDate, RerunDate
from tidegate.schemas.graph import Graph
from tidegate.schemas.state import BackfillState, DateState

MAX_SCANNED = 500
"""The most dates whose consumers one step looks for."""


def stages_of(dag_id: str, edges: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """The direct and indirect consumers of a DAG, in topological order. Raises CycleError."""
    return tuple(stage for stage in _in_order(edges) if stage != dag_id)


def _in_order(edges: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for producer, consumer in sorted(edges):
        sorter.add(consumer, producer)
    return tuple(sorter.static_order())


def backfill_after(id_: int, graph: Graph, order: Sequence[datetime], stages: tuple[str, ...], now: datetime) -> BackfillView:
    """The backfill of a cascade that begins with runs that a user cleared. Its dates are those of the runs, in `order`."""
    dates = tuple(sorted(set(order)))
    return BackfillView(
        id=id_,
        dag_id=graph.dag_id,
        version_id=graph.version_id,
        start_date=dates[0],
        end_date=dates[-1],
        logical_dates=dates,
        reprocess=Reprocess.COMPLETED,
        outlets=Outlets.CASCADE,
        max_active_runs=default_active_runs(graph.max_active_runs),
        priority=0,
        horizon=now,
        state=BackfillState.RUNNING,
        planned_until=dates[-1],
        is_planned=True,
        run_start_date=now,
        stages=stages,
    )


def version_of_runs(backfill: BackfillView, current: int) -> int:
    """The version of new runs. A stage takes the `current` one of its DAG when it begins, and keeps it."""
    return (backfill.stage_version_id or current) if backfill.stage else backfill.version_id


def cycle_of(edges: Sequence[tuple[str, str]]) -> Sequence[str] | None:
    """A cycle of DAGs that consume from each other, from its first DAG back to it; None if there is none."""
    try:
        _in_order(edges)
    except CycleError as error:
        found: Sequence[str] = error.args[1]
        return found
    return None


def why_not_again(backfill: BackfillView, consumer: Consumer) -> str | None:
    """Why a run stays as it is. Runs of later stages run again unless they are active; an outdated one does so after its end.

    A queued one reads the new data when it starts.
    """
    if consumer.is_outdated:
        return None
    return why_no_run(consumer.run, Reprocess.COMPLETED if backfill.stage else backfill.reprocess)


def plan_consumers(backfill: BackfillView, found: Sequence[Consumer]) -> Iterator[InsertDate | RerunDate]:
    """Runs that consumed events run again, whole, or stay as they are."""
    yield from (RerunDate(backfill.id, consumer.ordinal) for consumer in found if consumer.ordinal is not None)
    for ordinal, consumer in enumerate(new_consumers(found), backfill.dates + 1):
        run, reason = consumer.run, why_not_again(backfill, consumer)
        state = DateState.RETRY if reason is None else DateState.SKIPPED
        note = f"its run {run.run_id!r} has read older data, and runs again after its end" if consumer.is_outdated else ""
        yield InsertDate(backfill.id, ordinal, consumer.order_at, state, run.id, reason or note, is_whole=reason is None)


def new_consumers(found: Sequence[Consumer]) -> list[Consumer]:
    """The runs that are no dates of the backfill yet."""
    return [consumer for consumer in found if consumer.ordinal is None]


def postpone(backfill: BackfillView, edges: Sequence[tuple[str, str]], held: Set[str]) -> BackfillView:
    """The backfill whose stage is of a held DAG goes on with the stages that do not depend on a held one.

    The held DAGs and what consumes from them come last. Unchanged if nothing else is left.
    """
    done, left = backfill.stages[: backfill.stage - 1], backfill.stages[backfill.stage - 1 :]
    blocked: set[str] = set()
    for dag_id in left:
        if dag_id in held or any(producer in blocked for producer, consumer in edges if consumer == dag_id):
            blocked.add(dag_id)
    free = [dag_id for dag_id in left if dag_id not in blocked]
    if not free:
        return backfill
    stages = (*done, *free, *(dag_id for dag_id in left if dag_id in blocked))
    return msgspec.structs.replace(
        backfill, stages=stages, stage_version_id=None, scanned=0, scan_until=backfill.dates, is_planned=False
    )
