"""The DAGs of all schedules, filed once. Each of a few groups has datasets of its own; a schedule is about one group."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from tests.simulation.server import START
from tidegate.schemas.conditions.condition import AllOf, AnyOf, Condition, DatasetRef
from tidegate.schemas.dag import CommandTask, DagSpec, EmptyTask, TaskSpec
from tidegate.schemas.timetable.spec import Cron

NARROW = "narrow"
"""The pool with the few slots."""

PAST = "past"
"""The group whose DAG users run for past dates, too."""


class Group(NamedTuple):
    """The URIs that producers update, and the DAGs."""

    uris: Sequence[str]
    dags: Sequence[DagSpec]


def task(task_id: str, *upstream: str, **facts: Any) -> TaskSpec:
    return CommandTask(task_id=task_id, upstream=upstream, argv=("true",), **facts)


def dag(dag_id: str, schedule: Condition, *tasks: TaskSpec, runs: int = 1, **facts: Any) -> DagSpec:
    return DagSpec(dag_id=dag_id, schedule=schedule, max_active_runs=runs, tasks=tasks or (task("t"),), **facts)


def uri(name: str) -> str:
    return f"s://{name}"


def of(name: str) -> DatasetRef:
    return DatasetRef(uri(name))


def single() -> DagSpec:
    """A run of each event, of which all may work, but for their only task."""
    return dag("single", of("single"), task("t", max_active_per_dag=1), runs=3, mode="each")


def limited() -> DagSpec:
    """A run of each event, of which two may work, one of them at its first task."""
    tasks = (task("t", max_active_per_dag=1), task("u"), task("v"))
    return dag("limited", of("limited"), *tasks, runs=2, mode="each", max_active_tasks=2)


def chain() -> Group:
    """One makes what the other waits for."""
    first = dag("first", of("first"), task("t", outlets=(uri("second"),)))
    retried = task("t", retries=1, retry_delay_s=0.5)
    return Group([uri("first")], [first, dag("second", of("second"), retried, EmptyTask(task_id="end", upstream=("t",)))])


def crowd() -> Group:
    """Two DAGs in a pool that is too small for both."""
    wide = dag("wide", of("wide"), task("t", pool=NARROW, pool_slots=2), task("u", pool=NARROW), runs=2)
    slim = dag("slim", of("slim"), task("t", pool=NARROW), task("u", pool=NARROW), runs=2)
    return Group([uri("wide"), uri("slim")], [wide, slim])


def pools() -> Group:
    """Two DAGs in two pools."""
    near = dag("near", of("near"), task("t", pool=NARROW), task("u", pool=NARROW), runs=2)
    far = dag("far", of("far"), task("t"), task("u"), runs=2)
    return Group([uri("near"), uri("far")], [near, far])


def past() -> DagSpec:
    """A run of each event, and the dates of a timetable that has ended: only backfills make runs of these."""
    dates = {"timetable": Cron(("0 0 * * *",)), "end_date": START - timedelta(days=5), "missed": "skip"}
    return dag(PAST, of(PAST), task("t", pool=NARROW), task("u", "t"), runs=2, mode="each", **dates)


GROUPS: Mapping[str, Group] = {
    "one": Group([uri("one")], [dag("one", of("one"))]),
    "both": Group([uri("left"), uri("right")], [dag("both", AllOf((of("left"), of("right"))))]),
    "each": Group([uri("each")], [dag("each", of("each"), runs=2, mode="each")]),
    "either": Group([uri("a"), uri("b")], [dag("either", AnyOf((of("a"), of("b")))), dag("only", of("a"), runs=2)]),
    "chain": chain(),
    "crowd": crowd(),
    "pools": pools(),
    "single": Group([uri("single")], [single()]),
    "limited": Group([uri("limited")], [limited()]),
    PAST: Group([uri(PAST)], [past()]),
}

SPECS: Mapping[str, DagSpec] = {spec.dag_id: spec for group in GROUPS.values() for spec in group.dags}
