"""The page of `dags list`."""

from collections.abc import Iterable
from typing import Any

import msgspec

from tidegate.daemon.cli.pages import output, tree
from tidegate.daemon.cli.pages.dag import state_of
from tidegate.daemon.cli.pages.plan import Planned, next_run
from tidegate.schemas.conditions.condition import Condition
from tidegate.schemas.queries import dag_pages
from tidegate.schemas.queries.dag_pages import DagRow
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.plans import plans
from tidegate.schemas.timetable.spec import Timetable

TITLES = ("DAG", "STATE", "VERSION", "RUNNING", "QUEUED", "PENDING", "SCHEDULE", "NEXT", "FILE")


class ListedDag(msgspec.Struct, frozen=True):
    """A DAG, and the next run of its timetable."""

    dag: DagRow
    timetable: Timetable | None
    next_run: Planned | None

    def document(self) -> dict[str, Any]:
        """The JSON object."""
        return {**msgspec.structs.asdict(self.dag), "timetable": self.timetable, "next_run": self.next_run}


async def list_dags(db: Db) -> list[ListedDag]:
    timed = await plans(db)
    return [
        ListedDag(dag, plan.graph.timetable if plan else None, next_run(plan, db.now))
        for dag in await dag_pages.list_dags(db)
        for plan in (timed.get(dag.dag_id),)
    ]


def print_dags(dags: Iterable[ListedDag]) -> None:
    output.table(TITLES, map(_cells, dags), empty="there are no DAGs yet: put a DAG file into the DAG folder")


def _cells(listed: ListedDag) -> tuple[output.Cell, ...]:
    dag = listed.dag
    condition = msgspec.convert(dag.schedule, Condition | None)
    schedule = tree.schedule_text(condition, listed.timetable, together=dag.together)
    due = listed.next_run.run_after if listed.next_run else None
    return dag.dag_id, state_of(dag), dag.version, dag.running, dag.queued, dag.pending, schedule, due, dag.path
