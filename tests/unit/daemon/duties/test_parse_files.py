"""How long results of DAG files are kept, and which of an archive are waited for and reported."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from uuid import uuid4
from zipfile import ZipFile

import anyio
import pytest
from anyio.abc import TaskGroup

from tests.shapes import NOW, message
from tidegate.daemon.context import Context
from tidegate.daemon.dagfiles.parse import Parser
from tidegate.daemon.duties import parse_files
from tidegate.daemon.duties.parse_files import FileParsing, Parse, bind, keep
from tidegate.daemon.leases import HeldLeases
from tidegate.daemon.outage import Outages
from tidegate.daemon.postgres.database import Database
from tidegate.daemon.settings import Settings
from tidegate.daemon.wake import Signals
from tidegate.schemas.dag import ParsedFile
from tidegate.schemas.queries.leases import Job
from tidegate.schemas.wire.event import DagFileChanged

FILES = ("team.zip/a.py", "team.zip/b.py", "team.zip/c.py")


class Gated:
    """A parser whose results of some files wait for their gates."""

    def __init__(self, *slow: str) -> None:
        self.gates = {path: anyio.Event() for path in slow}

    async def parse(self, path: str) -> ParsedFile:
        if path in self.gates:
            await self.gates[path].wait()
        return ParsedFile(path=path, digest="parsed")


def parsing_of(root: Path, parser: Gated, tasks: TaskGroup, asked: Callable[[], None] = lambda: None) -> FileParsing:
    """In a database that knows the files of the archive. `asked` is called when it is asked for them."""

    async def known(*_: object) -> dict[str, None]:
        asked()
        return dict.fromkeys(FILES)

    database = cast(Database, SimpleNamespace(clock=SimpleNamespace(known=lambda: NOW), autocommit=known))
    settings = Settings(postgres_dsn="", kafka_servers="", dags_folder=str(root))
    context = Context(settings, database, HeldLeases(Job(uuid4(), "here", 7, "test")), Signals(), Outages(), {})
    return FileParsing(context, cast(Parser, parser), tasks)


async def results(parsing: FileParsing, *paths: str) -> list[ParsedFile]:
    """Of one batch of events."""
    return [parsed.body for parsed in await parsing.parse([message(DagFileChanged(path=path)) for path in paths])]


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parse_files, "PATIENCE_S", 0.05)


@pytest.mark.parametrize("end", [lambda parse: parse.done.set(), Parse.cancel])
async def test_a_result_is_kept_for_the_last_file_of_its_archive(
    end: Callable[[Parse], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parse_files, "KEEP_S", 0.0)
    quick, slow, ended = Parse(NOW, "1"), Parse(NOW, "2"), anyio.Event()
    bind({"quick": quick, "slow": slow}, [["quick", "slow"]])
    quick.done.set()

    async def forget() -> None:
        await keep(quick)
        ended.set()

    async with anyio.create_task_group() as tg:
        tg.start_soon(forget)
        await anyio.wait_all_tasks_blocked()
        early = ended.is_set()
        end(slow)
        with anyio.fail_after(60):
            await ended.wait()
    assert not early


async def test_a_result_that_was_taken_is_not_kept(tmp_path: Path) -> None:
    (tmp_path / "a.py").touch()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tg:
            (parsed,) = await results(parsing_of(tmp_path, Gated(), tg), "a.py")

    assert parsed.digest == "parsed"


def pack(root: Path) -> None:
    with ZipFile(root / "team.zip", "w") as archive:
        for path in FILES:
            archive.writestr(path.removeprefix("team.zip/"), "")


async def test_the_known_files_are_read_once_for_all_archives_of_a_batch(tmp_path: Path) -> None:
    pack(tmp_path)
    (tmp_path / "team.zip").rename(tmp_path / "other.zip")
    pack(tmp_path)
    asked: list[None] = []
    async with anyio.create_task_group() as tg:
        found = await results(parsing_of(tmp_path, Gated(), tg, lambda: asked.append(None)), "team.zip", "other.zip", "a.py")
        tg.cancel_scope.cancel()

    assert [len(each.members) for each in found] == [3, 3, 0]
    assert len(asked) == 1


def unpack(root: Path) -> None:
    """A folder takes the place of the archive."""
    (root / "team.zip").unlink(missing_ok=True)
    (root / "team.zip").mkdir()
    for path in FILES:
        (root / path).touch()


@pytest.mark.parametrize("was_archive", [False, True])
async def test_a_slow_file_of_a_folder_named_like_an_archive_holds_no_other(tmp_path: Path, *, was_archive: bool) -> None:
    a, b, _ = FILES
    async with anyio.create_task_group() as tg:
        parsing = parsing_of(tmp_path, Gated(b), tg)
        if was_archive:
            pack(tmp_path)
            await results(parsing, "team.zip")
        unpack(tmp_path)

        folder, quick, slow = await results(parsing, "team.zip", a, b)

        tg.cancel_scope.cancel()
    assert (folder.path, folder.members) == ("team.zip", ())
    assert (quick.path, quick.is_awaited, slow.path, slow.is_awaited) == (a, False, b, True)


async def test_the_last_late_file_of_an_archive_is_reported_for_all(tmp_path: Path) -> None:
    a, b, c = FILES
    pack(tmp_path)
    reported = []
    async with anyio.create_task_group() as tg:
        parser = Gated(a, b)
        parsing = parsing_of(tmp_path, parser, tg)
        (early,) = await results(parsing, "team.zip")
        for path in (b, a):
            parser.gates[path].set()
            await anyio.wait_all_tasks_blocked()
            reported.append(sorted(parsing._late))
        (late,) = await results(parsing, a)
        tg.cancel_scope.cancel()
    assert reported == [[], [a]]
    assert [(file.path, file.is_awaited) for file in early.members] == [(a, True), (b, True)]
    assert [(file.path, file.is_awaited) for file in late.members] == [(path, False) for path in (a, b, c)]
