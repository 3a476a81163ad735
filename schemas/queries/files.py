"""DAG files, their import errors, and the versions of DAGs."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from tidegate.schemas.dag import DagSpec, ModuleSource
from tidegate.schemas.effect.dag import StoreVersion
from tidegate.schemas.graph import inspects_events
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.sql import load

_SQL = load("files")


class FileView(msgspec.Struct, frozen=True):
    """A DAG file as it was last parsed. `absent_scans`: consecutive scans without it."""

    path: str
    digest: str | None
    absent_scans: int


class KnownFile(msgspec.Struct, frozen=True):
    """The digest of a DAG file as it was last parsed, and the paths of the files that it depends on."""

    digest: str | None
    imports: frozenset[str] = frozenset()


class StoredDag(msgspec.Struct, frozen=True):
    """A DAG at its current version. `spec` is None if it cannot be read."""

    dag_id: str
    path: str
    is_stale: bool
    version_id: int
    number: int
    spec: DagSpec | None
    digest: str | None


async def lock_files(db: Db) -> None:
    """Lock out other transactions that write DAG files, and wait for those in progress."""
    await db.execute(_SQL["lock_files"])


async def files(db: Db, paths: Collection[str]) -> Mapping[str, FileView]:
    return {row["path"]: FileView(*row) for row in await db.fetch(_SQL["files"], list(paths))}


async def stored_dags(db: Db, paths: Collection[str], dag_ids: Collection[str]) -> Sequence[StoredDag]:
    """The DAGs of these files, and the DAGs of these ids in any file."""
    rows = await db.fetch(_SQL["stored_dags"], list(paths), list(dag_ids))
    return [
        StoredDag(dag_id, path, stale, version_id, number, _readable(spec), digest)
        for dag_id, path, stale, version_id, number, spec, digest in rows
    ]


def _readable(spec: Any) -> DagSpec | None:
    try:
        return msgspec.convert(spec, DagSpec)
    except msgspec.ValidationError:
        return None


async def reserve_versions(db: Db, count: int) -> list[int]:
    """Ids for versions that a decision may store."""
    return [row[0] for row in await db.fetch(_SQL["reserve_versions"], count)] if count else []


async def store(db: Db, effects: Sequence[StoreVersion]) -> None:
    """Store the versions and make each the current one of its DAG."""
    await db.execute(_SQL["insert_versions"], *zip(*map(_version, effects), strict=True))
    await _store_modules(db, [(effect.version_id, module) for effect in effects for module in effect.modules])
    specs = [effect.spec for effect in effects]
    await db.execute(
        _SQL["swap_versions"],
        [spec.dag_id for spec in specs],
        [effect.path for effect in effects],
        [effect.version_id for effect in effects],
        [spec.timetable is not None for spec in specs],
        [spec.timing.deadline is not None for spec in specs],
        [inspects_events(spec) for spec in specs],
        [spec.on_paused == "keep" for spec in specs],
        db.now,
        [effect.paused for effect in effects],
    )


def _version(effect: StoreVersion) -> tuple[object, ...]:
    spec = msgspec.to_builtins(effect.spec)
    return effect.version_id, effect.spec.dag_id, effect.number, spec, effect.path, effect.digest, effect.source


async def _store_modules(db: Db, modules: Sequence[tuple[int, ModuleSource]]) -> None:
    if modules:
        digests = [module.digest for _, module in modules]
        await db.execute(_SQL["insert_modules"], digests, [module.source for _, module in modules])
        version_ids, paths = [id_ for id_, _ in modules], [module.path for _, module in modules]
        await db.execute(_SQL["insert_version_modules"], version_ids, paths, digests)


async def delete_unused_modules(db: Db) -> None:
    """Delete the modules of versions that are deleted. Under the lock of all writers: a version may be about to use one."""
    await lock_files(db)
    await db.execute(_SQL["delete_unused_modules"])


async def known(db: Db, scans: int) -> Mapping[str, KnownFile]:
    """The files by path. A file that was absent in `scans` consecutive scans is left out."""
    rows = await db.fetch(_SQL["known"], scans)
    return {path: KnownFile(digest, frozenset(imports or ())) for path, digest, imports in rows}
