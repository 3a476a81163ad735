"""When a dataset may get its next event: for each DAG that updates it, its newest run, its next one, and what that waits for."""

from collections.abc import Sequence

import msgspec

from tidegate.daemon.read_model.inputs import missing_datasets
from tidegate.daemon.read_model.plan import Planned, next_run
from tidegate.daemon.read_model.why_not import read_dag_why_not
from tidegate.schemas.queries import dag_pages, grid
from tidegate.schemas.queries.dag_pages import LastRun
from tidegate.schemas.queries.dataset_pages import ProducerRow
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.grid import Usual
from tidegate.schemas.state import RUN_ENDED

EXPLAINED = 5
"""The DAGs that are explained: each takes several queries."""


class Arrival(msgspec.Struct, frozen=True):
    """A DAG that updates a dataset by `tasks`.

    `waits_for` are the reasons why it has no new run, `missing` the datasets without an event among them. `usual` is how long
    its runs take. `is_active`: its newest run has not ended.
    """

    dag_id: str
    tasks: Sequence[str]
    newest: LastRun | None
    is_active: bool
    usual: Usual | None
    next_run: Planned | None
    waits_for: Sequence[str]
    missing: Sequence[str]


async def read_arrivals(db: Db, producers: Sequence[ProducerRow], most: int = EXPLAINED) -> list[Arrival]:
    """One for each of the first DAGs of the producers."""
    dag_ids = list(dict.fromkeys(row.dag_id for row in producers))[:most]
    newest = await dag_pages.last_runs(db, dag_ids, 1)
    plans = await dag_pages.plans(db, *dag_ids) if dag_ids else {}
    usual = await grid.usual_of(db, dag_ids) if dag_ids else {}
    return [
        await _arrival(
            db,
            dag_id,
            [row.task_id for row in producers if row.dag_id == dag_id],
            next(iter(newest[dag_id]), None),
            usual.get(dag_id),
            next_run(plans.get(dag_id), db.now),
        )
        for dag_id in dag_ids
    ]


async def _arrival(
    db: Db, dag_id: str, tasks: Sequence[str], newest: LastRun | None, usual: Usual | None, planned: Planned | None
) -> Arrival:
    why = await read_dag_why_not(db, dag_id)
    return Arrival(
        dag_id=dag_id,
        tasks=tasks,
        newest=newest,
        is_active=newest is not None and newest.state not in RUN_ENDED,
        usual=usual,
        next_run=planned,
        waits_for=[gate.reason.text for gate in why.explanation.closed if gate.reason],
        missing=missing_datasets(why.spec, why.inputs),
    )
