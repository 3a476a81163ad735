"""DAG files through the real sandbox: what is read, what comes of it."""

import os
from contextlib import suppress
from pathlib import Path

import anyio
import msgspec
import pytest

from tests.integration.dagfiles.conftest import GOOD, SPEC, Write, interrupted, parse, problem, sandboxed, until
from tidegate.daemon.dagfiles import parse as parsing
from tidegate.daemon.dagfiles.parse import AT_ONCE, open_parser
from tidegate.daemon.settings import Settings
from tidegate.schemas.dag import REPEAT_DIGEST, ImportProblem, ParsedFile


async def test_a_good_file_gives_its_dags_its_source_and_its_digest(settings: Settings, root: Path, write: Write) -> None:
    (parsed,) = await parse(settings, write("team/good.py", GOOD))

    assert (parsed.path, parsed.dags, parsed.problem) == ("team/good.py", (SPEC,), None)
    assert parsed.source == (root / "team/good.py").read_text()
    assert parsed.digest is not None
    assert len(parsed.digest) == 64
    assert 0 < parsed.duration_s < settings.parse_wall_s


async def test_a_file_that_is_gone_has_no_digest(settings: Settings) -> None:
    assert await parse(settings, "gone.py") == [ParsedFile(path="gone.py", digest=None)]


async def test_a_path_that_leads_outside_is_a_problem(settings: Settings) -> None:
    (parsed,) = await parse(settings, "../outside.py")

    assert problem(parsed).reason == "the path must be relative to the DAG folder and stay below it"


async def test_a_file_that_cannot_hold_dags_is_not_even_run(settings: Settings, root: Path, write: Write) -> None:
    application = "import os\nopen(os.environ['TIDEGATE_EVENTS'])  # daggers\n"
    found = await parse(settings, write("other.py", "1 / 0\n"), write("jobs/month.py", application))

    assert [(parsed.dags, parsed.problem) for parsed in found] == [((), None)] * 2
    assert all(parsed.digest for parsed in found)


async def test_a_file_can_import_its_siblings_and_leaves_no_bytecode(settings: Settings, root: Path, write: Write) -> None:
    write("lib/__init__.py", "")
    os.chmod(root / "lib", 0o777)  # noqa: S103 - the file could leave something there for any user
    write("lib/lake.py", "from tidegate import Dataset\nflights = Dataset('lake://flights')\n")
    user = write("user.py", "from lib.lake import flights\nfrom tidegate import Dag\nDag('user', schedule=flights)\n")

    (parsed,) = await parse(settings, user)

    assert [spec.dag_id for spec in parsed.dags] == ["user"]
    assert [folder for folder, _, _ in os.walk(root) if folder.endswith("__pycache__")] == []


async def test_a_mistake_in_a_sibling_is_blamed_on_the_import(settings: Settings, root: Path, write: Write) -> None:
    write("broken.py", "x = (\n")

    (parsed,) = await parse(settings, write("user.py", "import tidegate\nimport broken\n"))

    assert problem(parsed) == ImportProblem(reason=f"SyntaxError: '(' was never closed in {root}/broken.py, line 1", line=2)


async def test_a_change_of_a_sibling_is_seen_by_the_next_parse(settings: Settings, write: Write) -> None:
    user = write("user.py", "import names\nfrom tidegate import Dag\nDag(names.name)\n")

    async with open_parser(settings) as parser:
        write("names.py", "name = 'before'\n")
        before = await parser.parse(user)
        write("names.py", "name = 'after'\n")
        after = await parser.parse(user)

    assert (before.dags[0].dag_id, after.dags[0].dag_id) == ("before", "after")


async def test_a_set_has_the_same_order_in_every_parser(settings: Settings, write: Write) -> None:
    text = "from tidegate import Dag\ndag = Dag('d')\nfor name in {'a', 'b', 'c', 'd', 'e', 'f'}:\n  dag.empty(name)\n"
    path = write("set.py", text)

    (first,), (second,) = await parse(settings, path), await parse(settings, path)

    assert first.dags == second.dags


async def test_several_files_are_parsed_at_once(
    settings: Settings, root: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each reads a pipe, and none is written to before all are read. Once: a pipe has nothing for a second parse."""
    monkeypatch.setattr(parsing, "QUICK_S", settings.parse_wall_s)
    names = ["a", "b", "c", "d"]
    found: list[ParsedFile] = []

    async def keep(name: str) -> None:
        os.mkfifo(root / name)
        text = f"import tidegate\nopen({str(root / name)!r}).read()\ntidegate.Dag({name!r})\n"
        found.append(await parser.parse(write(f"{name}.py", text)))

    async with open_parser(settings) as parser, anyio.create_task_group() as tg:
        for name in names:
            tg.start_soon(keep, name)
        pipes = [await pipe_that_is_read(root / name) for name in names]
        for pipe in pipes:
            os.close(pipe)

    assert sorted(dag.dag_id for parsed in found for dag in parsed.dags) == names


async def pipe_that_is_read(path: Path) -> int:
    with anyio.fail_after(30):
        while True:
            with suppress(OSError):
                return os.open(path, os.O_WRONLY | os.O_NONBLOCK)
            await anyio.sleep(0.01)


async def test_a_quick_file_is_parsed_beside_many_that_hang(settings: Settings, write: Write) -> None:
    hanging = [write(f"hangs{number}.py", "import time, tidegate\ntime.sleep(600)") for number in range(40)]
    quick = write("quick.py", "import tidegate\ntidegate.Dag('quick')")

    async with open_parser(msgspec.structs.replace(settings, parse_wall_s=600)) as parser, anyio.create_task_group() as tg:
        for path in hanging:
            tg.start_soon(parser.parse, path)
        await until(lambda: len(sandboxed()) >= AT_ONCE)
        with anyio.fail_after(300):  # half of what each of the others takes
            parsed = await parser.parse(quick)
        tg.cancel_scope.cancel()

    assert [dag.dag_id for dag in parsed.dags] == ["quick"]


async def test_a_file_that_takes_long_is_parsed_again_to_its_end(settings: Settings, write: Write) -> None:
    (parsed,) = await parse(settings, write("long.py", "import time, tidegate\ntime.sleep(2.5)\ntidegate.Dag('long')"))

    assert [dag.dag_id for dag in parsed.dags] == ["long"]
    assert parsed.duration_s > 2.5


async def test_a_file_that_hung_is_to_be_parsed_again(settings: Settings, write: Write) -> None:
    path = write("hangs.py", "import time, tidegate\ntime.sleep(600)")

    wall_s, hung = await interrupted(settings, path, 2, 1, 10, 60)

    assert hung.digest == REPEAT_DIGEST
    assert f"it was still running after {wall_s:g} s (TIDEGATE_PARSE_WALL_S)" in problem(hung).reason
