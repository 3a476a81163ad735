"""A file that a DAG file imports changes while the DAG file is parsed, or before the result is used."""

from types import SimpleNamespace
from typing import cast
from uuid import uuid4

import anyio
import pytest

from tests.integration.dagfiles.conftest import Write
from tests.shapes import NOW, message
from tidegate.daemon.context import Context
from tidegate.daemon.dagfiles.parse import Parser, open_parser
from tidegate.daemon.duties.parse_files import FileParsing
from tidegate.daemon.leases import HeldLeases
from tidegate.daemon.outage import Outages
from tidegate.daemon.postgres.database import Database
from tidegate.daemon.settings import Settings
from tidegate.daemon.wake import Signals
from tidegate.schemas.dag import ParsedFile
from tidegate.schemas.queries.leases import Job
from tidegate.schemas.wire.event import DagFileChanged


class Held:
    """A parser whose result has to wait for `gate`."""

    def __init__(self, parser: Parser) -> None:
        self.parses = 0
        self.gate = anyio.Event()
        self._parser = parser

    async def parse(self, path: str) -> ParsedFile:
        file = await self._parser.parse(path)
        self.parses += 1
        await self.gate.wait()
        return file


def context_of(settings: Settings) -> Context:
    database = cast(Database, SimpleNamespace(clock=SimpleNamespace(known=lambda: NOW)))
    return Context(settings, database, HeldLeases(Job(uuid4(), "here", 7, "test")), Signals(), Outages(), {})


@pytest.mark.parametrize("text", ["n = 'after'", "n = ("])
async def test_the_result_fits_the_imports_at_the_time_of_the_event(settings: Settings, write: Write, text: str) -> None:
    path = write("user.py", "import names\nfrom tidegate import Dag\nDag(names.n)\n")
    write("names.py", "n = 'before'")
    async with open_parser(settings) as parser, anyio.create_task_group() as tg:
        held = Held(parser)
        parsing = FileParsing(context_of(settings), cast(Parser, held), tg)
        await parsing._begin([path])
        with anyio.fail_after(60):
            while not held.parses:
                await anyio.sleep(0.01)
        write("names.py", text)
        tg.start_soon(open_gate, held)

        (result,) = await parsing.parse([message(DagFileChanged(path=path))])

        (now,) = [await parser.parse(path)]
        tg.cancel_scope.cancel()
    assert (result.body.digest, result.body.dags, result.body.problem) == (now.digest, now.dags, now.problem)


async def open_gate(held: Held) -> None:
    held.gate.set()
