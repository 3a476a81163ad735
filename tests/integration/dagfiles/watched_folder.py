"""A DAG folder that is watched, and what becomes of the reports."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import msgspec

from tidegate.daemon.dagfiles.source import content_digest, with_imports
from tidegate.daemon.dagfiles.watch import digest, watch
from tidegate.daemon.settings import Settings
from tidegate.schemas.dag import REPEAT_DIGEST, archive_of
from tidegate.schemas.error import UnavailableError
from tidegate.schemas.queries.files import KnownFile

SLOW = 3600.0
"""So long between two scans that a test sees inotify alone."""


class Database:
    """What a daemon would do with the reports: record the file, or count how often it was absent."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.known: dict[str, str | None] = {}
        self.imports: dict[str, Sequence[str]] = {}
        self.archives: dict[str, Sequence[str]] = {}
        self.absent: dict[str, int] = {}
        self.reports: list[str] = []
        self.asked = 0
        self.is_away = False
        self.is_slow = False
        self.refused: str | None = None

    async def publish(self, paths: Sequence[str]) -> None:
        self.reports += paths
        for path in paths if not self.is_slow else ():
            self._record(path)
            for name in self.archives.get(path, ()):
                self._record_entry(path, name)

    async def files(self) -> Mapping[str, KnownFile]:
        self.asked += 1
        if self.is_away:
            raise UnavailableError("Postgres is not available", server="Postgres")
        return {path: KnownFile(digest, frozenset(self.imports.get(path, ()))) for path, digest in self.known.items()}

    def has_more_than(self, reports: int) -> bool:
        return len(self.reports) > reports

    def _record_entry(self, archive: str, name: str) -> None:
        """As the parser does: what is in a refused archive depends on nothing."""
        path, whole = f"{archive}/{name}", f"{archive}/"
        is_read = digest(self.root, path) != content_digest(self.root, whole)
        self.imports[path] = [whole] if is_read else []
        self._record(path)

    def _record(self, path: str) -> None:
        if (self.root / (archive_of(path) or path)).exists():
            imports = {imported: content_digest(self.root, imported) for imported in self.imports.get(path, ())}
            digest_now = REPEAT_DIGEST if path == self.refused else digest(self.root, path)
            self.known[path] = with_imports(digest_now, imports)
            return
        self.known[path] = None
        self.absent[path] = self.absent.get(path, 0) + 1
        if self.absent[path] == 2:
            del self.known[path]


@asynccontextmanager
async def watching(settings: Settings, database: Database, *, scan_s: float) -> AsyncIterator[None]:
    settings = msgspec.structs.replace(settings, dags_scan_s=scan_s)
    async with anyio.create_task_group() as tg:
        await tg.start(watch, settings, database.publish, database.files)
        yield
        tg.cancel_scope.cancel()


async def quiet() -> None:
    """Long enough for several scans."""
    await anyio.sleep(0.6)
