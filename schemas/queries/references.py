"""References of DAGs to datasets: consumed, produced, and consumed by pattern.

A pattern has a reference to each dataset that it matches. A new pattern and a new dataset exclude each other by an advisory lock,
and a consumer with `catchup` excludes writers of events by a lock on the ledger, both before any DAG is locked.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from tidegate.schemas.conditions.pattern import literal_prefix, matches, posix_expression
from tidegate.schemas.effect.dag import DeleteDag, SetReferences
from tidegate.schemas.queries import dag_history
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.sql import load

_SQL = load("references")


async def lock_ledger(db: Db) -> None:
    """Wait for writers of events, and block new ones until this transaction ends. Called before any DAG is locked."""
    await db.execute(_SQL["lock_ledger"])


async def count_history(db: Db, effect: SetReferences, most: int) -> int:
    """The recorded events of the datasets that the DAG consumes newly, counted up to `most`. Nothing is locked."""
    rows = await db.fetch(_SQL["count_history"], effect.dag_id, effect.consumed, effect.backfill_since, most)
    return int(rows[0][0])


async def recent_history(db: Db, effect: SetReferences, most: int) -> datetime:
    """The time after which about `most` of these events occurred, or fewer: of each of the datasets the same number."""
    rows = await db.fetch(_SQL["recent_history"], effect.dag_id, effect.consumed, effect.backfill_since or db.now, most)
    at: datetime = rows[0][0]
    return at


async def delete(db: Db, effects: Sequence[DeleteDag]) -> None:
    """Delete these DAGs with all their rows. The events of the ledger stay."""
    dag_ids = [effect.dag_id for effect in effects]
    dropped = [row[0] for row in await db.fetch(_SQL["drop_schedule_references"], dag_ids, [], [])]
    dropped += [row[0] for row in await db.fetch(_SQL["drop_outlet_references"], dag_ids)]
    await db.execute(_SQL["drop_pattern_references"], dag_ids)
    await dag_history.delete_all_runs(db, dag_ids)
    await db.execute(_SQL["delete_dags"], dag_ids)
    await refresh_is_active(db, set(dropped))


async def lock_patterns(db: Db) -> None:
    """Block the creation of datasets by other transactions until this one ends. Called before any DAG is locked."""
    await db.execute(_SQL["lock_patterns"])


async def datasets_matching(db: Db, patterns: Collection[str]) -> Mapping[str, int]:
    """The ids of the datasets that match a pattern, by URI."""
    wanted = sorted(set(patterns))
    columns = [list(map(literal_prefix, wanted)), list(map(posix_expression, wanted))]
    return {uri: id_ for id_, uri in await db.fetch(_SQL["datasets_matching"], *columns)} if wanted else {}


async def add_pattern_references(db: Db, made: Mapping[str, int]) -> None:
    """Add references from DAGs that consume a pattern to the new datasets that it matches."""
    await db.execute(_SQL["share_patterns"])
    found = {(dag_id, made[uri]) for uri, dag_id in await _consumers_by_pattern(db, made)}
    if found:
        await db.fetch(_SQL["insert_schedule_references"], *zip(*sorted(found), strict=True))
        await refresh_is_active(db, {dataset_id for _, dataset_id in found})


async def awaited(db: Db, uris: Collection[str]) -> set[str]:
    """The URIs that the pattern of a DAG matches."""
    return {uri for uri, _ in await _consumers_by_pattern(db, uris)}


async def is_awaited(db: Db, uri: str) -> bool:
    """Whether a DAG waits for the dataset, by its name or by a pattern."""
    return bool(await db.fetch(_SQL["consumers_of"], uri) or await awaited(db, [uri]))


async def awaited_names(db: Db, limit: int) -> list[str]:
    """The first datasets and patterns that DAGs wait for."""
    return [name for (name,) in await db.fetch(_SQL["awaited_names"], limit)]


async def _consumers_by_pattern(db: Db, uris: Collection[str]) -> list[tuple[str, str]]:
    near = await db.fetch(_SQL["patterns_near"], list(uris))
    return [(uri, dag_id) for uri, pattern, dag_id in near if matches(pattern, uri)]


async def replace(db: Db, effects: Sequence[SetReferences]) -> None:
    """Replace the references of these DAGs, update the activity of the datasets concerned, and backfill new references."""
    dag_ids = [effect.dag_id for effect in effects]
    consumed = sorted((effect.dag_id, id_) for effect in effects for id_ in effect.consumed)
    produced = sorted((effect.dag_id, *output) for effect in effects for output in effect.produced)
    patterns = [(effect.dag_id, pattern, literal_prefix(pattern)) for effect in effects for pattern in effect.patterns]
    dropped = [row[0] for row in await db.fetch(_SQL["drop_schedule_references"], dag_ids, *_columns(consumed, 2))]
    dropped += [row[0] for row in await db.fetch(_SQL["drop_outlet_references"], dag_ids)]
    await db.execute(_SQL["drop_pattern_references"], dag_ids)
    new = await db.fetch(_SQL["insert_schedule_references"], *_columns(consumed, 2))
    if produced:
        await db.execute(_SQL["insert_outlet_references"], *_columns(produced, 3))
    if patterns:
        await db.execute(_SQL["insert_pattern_references"], *_columns(patterns, 3))
    await refresh_is_active(db, {*dropped, *(id_ for _, id_ in consumed), *(id_ for _, _, id_ in produced)})
    since = {effect.dag_id: effect.backfill_since for effect in effects if effect.backfills}
    if backfilled := [(dag_id, dataset_id, since[dag_id]) for dag_id, dataset_id in new if dag_id in since]:
        await db.execute(_SQL["queue_history"], *_columns(backfilled, 3), db.now)


async def refresh_is_active(db: Db, dataset_ids: Collection[int]) -> int:
    """Update whether datasets are active: whether a DAG refers to them. Returns the number of changed datasets."""
    if not dataset_ids:
        return 0
    return int((await db.execute(_SQL["refresh_activity"], list(dataset_ids))).rpartition(" ")[2])


def _columns(rows: Sequence[tuple[object, ...]], width: int) -> list[list[object]]:
    return [[row[place] for row in rows] for place in range(width)]
