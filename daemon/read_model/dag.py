"""A DAG as a page: what starts it, its limits, its next runs, its last runs; and the list of DAGs."""

from collections.abc import Sequence
from typing import Any

import msgspec

from tidegate.daemon.read_model import inputs
from tidegate.daemon.read_model.inputs import InputRow
from tidegate.daemon.read_model.lookup import find_dag
from tidegate.daemon.read_model.plan import Planned, list_planned, next_run
from tidegate.schemas.dag import DagSpec
from tidegate.schemas.queries import dag_pages, datasets, run_pages, versions
from tidegate.schemas.queries.dag_pages import DagFilter, DagRow, NoteRow, plans
from tidegate.schemas.queries.datasets import PendingRow
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.run_pages import RunRow
from tidegate.schemas.timetable.spec import Timetable

LAST_RUNS, LAST_NOTES, NEXT_RUNS = 5, 5, 3


class DagPage(msgspec.Struct, frozen=True):
    """A DAG. `next_runs` are those of its timetable, also while it is paused."""

    dag: DagRow
    spec: DagSpec
    pending: Sequence[PendingRow]
    inputs: Sequence[InputRow]
    notes: Sequence[NoteRow]
    next_runs: Sequence[Planned]
    runs: Sequence[RunRow]


async def read_dag_page(db: Db, dag_id: str) -> DagPage:
    dag = await find_dag(db, dag_id)
    spec = await versions.current_spec(db, dag_id)
    plan = (await plans(db, dag_id)).get(dag_id)
    return DagPage(
        dag=dag,
        spec=spec,
        pending=await datasets.pending_counts(db, dag_id),
        inputs=await inputs.read_inputs(db, dag_id, spec),
        notes=await dag_pages.list_notes(db, dag_id, LAST_NOTES),
        next_runs=list_planned(plan, db.now, NEXT_RUNS) if plan else [],
        runs=await run_pages.list_runs(db, dag_id=dag_id, limit=LAST_RUNS),
    )


def state_of(dag: DagRow) -> str:
    if dag.held_since is not None:
        return "held"
    if dag.is_stale:
        return "stale"
    return "paused" if dag.is_paused else "active"


class ListedDag(msgspec.Struct, frozen=True):
    """A DAG, and the next run of its timetable."""

    dag: DagRow
    timetable: Timetable | None
    next_run: Planned | None

    def document(self) -> dict[str, Any]:
        """The JSON object."""
        return {**msgspec.structs.asdict(self.dag), "timetable": self.timetable, "next_run": self.next_run}


async def read_list(
    db: Db, wanted: DagFilter = dag_pages.ALL, *, after: str | None = None, limit: int | None = None
) -> list[ListedDag]:
    """DAGs by id: all, or the first `limit` ones after an id that the filter matches."""
    dags = await dag_pages.list_dags(db, None, wanted, after=after, limit=limit)
    timed = await plans(db, *(dag.dag_id for dag in dags)) if dags else {}
    return [
        ListedDag(dag, plan.graph.timetable if plan else None, next_run(plan, db.now))
        for dag in dags
        for plan in (timed.get(dag.dag_id),)
    ]
