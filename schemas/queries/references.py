"""Who consumes and who makes which datasets, also by patterns."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from tidegate.schemas.conditions.condition import dataset_uris, patterns
from tidegate.schemas.conditions.pattern import literal_prefix, matches
from tidegate.schemas.dag import DagSpec
from tidegate.schemas.effect.dag import DeleteDag
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.sql import load

_SQL = load("references")


class Reference(NamedTuple):
    """A DAG consumes a dataset."""

    dag_id: str
    dataset_id: int


async def lock_ledger(db: Db) -> None:
    """Wait for every event that is being written, and let no other in. Before any DAG is locked."""
    await db.execute(_SQL["lock_ledger"])


async def delete(db: Db, effects: Sequence[DeleteDag]) -> None:
    """Everything there is of these DAGs, but not of the events that they waited for."""
    dag_ids = [effect.dag_id for effect in effects]
    dropped = [row[0] for row in await db.fetch(_SQL["drop_schedule_references"], dag_ids, [], [])]
    dropped += [row[0] for row in await db.fetch(_SQL["drop_outlet_references"], dag_ids)]
    await db.execute(_SQL["drop_pattern_references"], dag_ids)
    await db.execute(_SQL["delete_runs"], dag_ids)
    await db.execute(_SQL["delete_dags"], dag_ids)
    await refresh(db, set(dropped))


async def prepare(db: Db, specs: Sequence[DagSpec], before: Sequence[DagSpec]) -> None:
    """Take the locks that storing these versions instead of those needs, before any DAG is locked."""
    if any(patterns_of(spec) for spec in (*specs, *before)):
        await db.execute(_SQL["lock_patterns"])
    known = {spec.dag_id: spec for spec in before}
    if any(spec.missed == "all" and spec.schedule and known.get(spec.dag_id) != spec for spec in specs):
        await lock_ledger(db)


async def watch_new(db: Db, made: Mapping[str, int]) -> None:
    """Whoever waits for a pattern that one of these new datasets matches waits for the dataset."""
    await db.execute(_SQL["share_patterns"])
    found = {(dag_id, made[uri]) for uri, dag_id in await _watchers(db, made)}
    if found:
        await db.fetch(_SQL["insert_schedule_references"], *zip(*sorted(found), strict=True))
        await refresh(db, {dataset_id for _, dataset_id in found})


async def awaited(db: Db, uris: Collection[str]) -> set[str]:
    """Those of these URIs that somebody's pattern matches."""
    return {uri for uri, _ in await _watchers(db, uris)}


async def _watchers(db: Db, uris: Collection[str]) -> list[tuple[str, str]]:
    near = await db.fetch(_SQL["patterns_near"], list(uris))
    return [(uri, dag_id) for uri, pattern, dag_id in near if matches(pattern, uri)]


async def refer(db: Db, specs: Sequence[DagSpec], known: Mapping[str, int]) -> None:
    """These DAGs refer to what these versions mention, and to nothing else. `known`: the ids of the datasets mentioned."""
    dag_ids = [spec.dag_id for spec in specs]
    matched = await _matched(db, specs)
    consumed = {Reference(spec.dag_id, id_) for spec in specs for id_ in (*_named(spec, known), *matched[spec.dag_id])}
    produced = {(spec.dag_id, task.task_id, known[uri]) for spec in specs for task in spec.tasks for uri in task.outlets}
    wanted = [(spec.dag_id, pattern, literal_prefix(pattern)) for spec in specs for pattern in sorted(patterns_of(spec))]
    dropped = [row[0] for row in await db.fetch(_SQL["drop_schedule_references"], dag_ids, *_columns(sorted(consumed), 2))]
    dropped += [row[0] for row in await db.fetch(_SQL["drop_outlet_references"], dag_ids)]
    await db.execute(_SQL["drop_pattern_references"], dag_ids)
    new = [Reference(*row) for row in await db.fetch(_SQL["insert_schedule_references"], *_columns(sorted(consumed), 2))]
    if produced:
        await db.execute(_SQL["insert_outlet_references"], *_columns(sorted(produced), 3))
    if wanted:
        await db.execute(_SQL["insert_pattern_references"], *_columns(wanted, 3))
    await refresh(db, {*dropped, *(id_ for _, id_ in consumed), *(row[2] for row in produced)})
    await _catch_up(db, specs, new)


def patterns_of(spec: DagSpec) -> frozenset[str]:
    """The patterns that a DAG waits for."""
    return patterns(spec.schedule) if spec.schedule is not None else frozenset()


async def refresh(db: Db, dataset_ids: Collection[int]) -> int:
    """A dataset is active while some DAG refers to it. Returns of how many that has changed."""
    if not dataset_ids:
        return 0
    return int((await db.execute(_SQL["refresh_activity"], list(dataset_ids))).rpartition(" ")[2])


def _named(spec: DagSpec, known: Mapping[str, int]) -> list[int]:
    return [known[uri] for uri in dataset_uris(spec.schedule)] if spec.schedule is not None else []


async def _matched(db: Db, specs: Sequence[DagSpec]) -> Mapping[str, set[int]]:
    """The datasets that the patterns of these DAGs match, by DAG."""
    found: dict[str, set[int]] = defaultdict(set)
    wanted = [(spec.dag_id, pattern) for spec in specs for pattern in patterns_of(spec)]
    if not wanted:
        return found
    near: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for prefix, id_, uri in await db.fetch(_SQL["datasets_near"], sorted({literal_prefix(pattern) for _, pattern in wanted})):
        near[prefix].append((id_, uri))
    for dag_id, pattern in wanted:
        found[dag_id] |= {id_ for id_, uri in near[literal_prefix(pattern)] if matches(pattern, uri)}
    return found


async def _catch_up(db: Db, specs: Sequence[DagSpec], new: Sequence[Reference]) -> None:
    """Whoever wants it gets what was recorded before it began to wait."""
    since = {spec.dag_id: spec.start_date for spec in specs if spec.missed == "all"}
    rows = [(dag_id, dataset_id, since[dag_id]) for dag_id, dataset_id in new if dag_id in since]
    if rows:
        await db.execute(_SQL["queue_history"], *_columns(rows, 3), db.now)


def _columns(rows: Sequence[tuple[object, ...]], width: int) -> list[list[object]]:
    return [[row[place] for row in rows] for place in range(width)]
