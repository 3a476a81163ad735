"""A zip archive in the DAG folder, from its event to the runs of its versions."""

from pathlib import Path
from typing import cast
from zipfile import ZipFile

import anyio
import pytest

from tests.integration.dagfiles.conftest import small_limits, until
from tests.integration.engine.contexts import context_of
from tests.integration.engine.test_pinned_modules import begin, submitted
from tests.integration.engine.world import World
from tests.shapes import message
from tidegate.daemon.dagfiles.parse import Parser, open_parser
from tidegate.daemon.duties import parse_files
from tidegate.daemon.duties.parse_files import FileParsing
from tidegate.daemon.settings import Settings
from tidegate.schemas.dag import ParsedFile
from tidegate.schemas.wire.event import DagFileChanged

DAG = "from tidegate import Dag\nwith Dag('{}') as dag:\n    @dag.task()\n    def work(spark, run):\n        import names\n"


def pack(path: Path, *dag_ids: str, names: str = "") -> None:
    with ZipFile(path, "w") as archive:
        archive.writestr("names.py", names)
        for dag_id in dag_ids:
            archive.writestr(f"{dag_id}.py", DAG.format(dag_id))


async def change(world: World, settings: Settings, path: str = "team.zip") -> None:
    """The event of the archive, or of another file, as a daemon handles it."""
    context = context_of(world.database, settings)
    async with open_parser(settings) as parser, anyio.create_task_group() as tg:
        (parsed,) = await FileParsing(context, parser, tg).parse([message(DagFileChanged(path=path))])
        tg.cancel_scope.cancel()
    await world.tell(parsed.body)


class Held:
    """A parser whose result of one file has to wait for `gate`. `quick` are the files with one."""

    def __init__(self, parser: Parser, held: str) -> None:
        self.gate = anyio.Event()
        self.quick: set[str] = set()
        self._parser = parser
        self._held = held

    async def parse(self, path: str) -> ParsedFile:
        file = await self._parser.parse(path)
        if path == self._held:
            await self.gate.wait()
        self.quick.add(path)
        return file


async def dags(world: World) -> list[tuple[object, ...]]:
    return await world.rows("""
        SELECT dag.path, version.number, dag.is_stale
        FROM dag
        JOIN dag_version AS version ON version.id = dag.version_id
        ORDER BY dag.dag_id
    """)


async def test_an_archive_with_a_slow_file_changes_in_one_transaction_also_after_a_kill(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive, settings = tmp_path / "team.zip", small_limits(tmp_path)
    pack(archive, "d", "e", names="before")
    await change(world, settings)
    pack(archive, "d", "e", names="later")
    context = context_of(world.database, settings)

    async with open_parser(settings) as parser, anyio.create_task_group() as tg:
        held = Held(parser, "team.zip/e.py")
        parsing = FileParsing(context, cast(Parser, held), tg)
        monkeypatch.setattr(parse_files, "PATIENCE_S", 0.01)
        await parsing._begin(quick := ["team.zip", "team.zip/d.py", "team.zip/names.py"])
        await until(lambda: held.quick >= set(quick))
        for path in ("team.zip/d.py", "team.zip/lib/x.py", "team.zip"):
            (early,) = await parsing.parse([message(DagFileChanged(path=path))])
            await world.tell(early.body)
        before, errors = await dags(world), await world.rows("SELECT path FROM import_error")
        digests = await world.rows("SELECT path FROM dag_file WHERE digest = 'awaited' ORDER BY path")
        monkeypatch.undo()
        held.gate.set()
        (late,) = await parsing.parse([message(DagFileChanged(path="team.zip/e.py"))])
        # A daemon that is killed here leaves the archive to the next one: the watcher reports it, because of the digest.
        tg.cancel_scope.cancel()
    assert [file.path for file in late.body.members] == ["team.zip/d.py", "team.zip/e.py", "team.zip/names.py"]
    assert before == [("team.zip/d.py", 1, False), ("team.zip/e.py", 1, False)]
    assert (errors, digests) == ([("team.zip/e.py",)], [("team.zip/e.py",)])
    await change(world, settings)
    assert await dags(world) == [("team.zip/d.py", 2, False), ("team.zip/e.py", 2, False)]
    assert await world.rows("SELECT path FROM import_error") == []


async def test_runs_keep_the_code_of_an_archive_and_a_change_of_it_is_one(world: World, tmp_path: Path) -> None:
    archive, settings = tmp_path / "team.zip", small_limits(tmp_path)
    pack(archive, "d", "e", names="before")
    await change(world, settings)
    await begin(world, "r1", 1)
    pack(archive, "d", names="later")
    await change(world, settings)
    await begin(world, "r2", 2)

    runs = await submitted(world)
    after_one = await dags(world)
    archive.write_text("broken")
    await change(world, settings)
    errors = await world.rows("SELECT path, reason FROM import_error ORDER BY path")
    pack(archive, "d", names="later")
    for _ in range(2):
        await change(world, settings)
    known = await dags(world)
    archive.unlink()
    for _ in range(2):
        await change(world, settings)

    source = DAG.format("d")
    other = DAG.format("e")
    assert runs == {"r1": (source, sorted(("before", other))), "r2": (source, ["later"])}
    assert after_one == [("team.zip/d.py", 2, False), ("team.zip/e.py", 1, False)]
    assert [path for path, _ in errors] == ["team.zip", "team.zip/d.py", "team.zip/e.py", "team.zip/names.py"]
    (reason,) = {reason for _, reason in errors}
    assert isinstance(reason, str)
    assert reason.startswith("it is no valid zip archive: File is not a zip file; ")
    assert known == [("team.zip/d.py", 2, False), ("team.zip/e.py", 1, True)]
    assert await dags(world) == [("team.zip/d.py", 2, True), ("team.zip/e.py", 1, True)]
    assert await world.rows("SELECT path FROM import_error") == []


async def test_a_file_with_dags_that_is_broken_into_text_without_any_name_of_them_keeps_them(
    world: World, tmp_path: Path
) -> None:
    settings = small_limits(tmp_path)
    pack(tmp_path / "team.zip", "d")
    (tmp_path / "daily.py").write_text(DAG.format("daily"))
    for path in ("team.zip", "daily.py"):
        await change(world, settings, path)

    with ZipFile(tmp_path / "team.zip", "w") as archive:
        archive.writestr("d.py", "def broken(:")
        archive.writestr("other.py", "def broken(:")
    (tmp_path / "daily.py").write_text("def broken(:")
    for path in ("team.zip", "daily.py"):
        await change(world, settings, path)

    assert await dags(world) == [("team.zip/d.py", 1, False), ("daily.py", 1, False)]
    errors = await world.rows("SELECT path, line, reason FROM import_error ORDER BY path")
    why = "SyntaxError: invalid syntax; if the file is to have no DAGs any more, delete it or exclude it by .tidegateignore"
    assert errors == [("daily.py", 1, why), ("team.zip/d.py", 1, why)]
