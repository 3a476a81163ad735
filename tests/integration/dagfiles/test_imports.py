"""The files that a DAG file depends on, and what their changes cause."""

import hashlib
import os
import py_compile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tests.integration.dagfiles.conftest import Write, parse, problem, small_limits, until, write_below
from tests.integration.dagfiles.watched_folder import SLOW, Database, quiet, watching
from tidegate.daemon.dagfiles.message import MAX_BYTES, MAX_IMPORTS, NOT_READ
from tidegate.daemon.dagfiles.parse import Parser
from tidegate.daemon.dagfiles.sandbox import Zygotes, open_zygotes
from tidegate.daemon.dagfiles.source import ReadImports, content_digest, read_imports
from tidegate.daemon.settings import Settings
from tidegate.schemas.dag import ModuleSource, ParsedFile, SubmitTask

USER = "from tidegate import Dag\nDag('user')\n"
FUNCTION = "from tidegate import Dag\nwith Dag('user') as dag:\n    @dag.task()\n    def work(spark, run):\n        "


class Case(NamedTuple):
    files: dict[str, str]
    source: str
    imports: list[str]
    name: str


CASES = [
    Case({}, USER, [], "none"),
    Case({"a.py": "", "b.py": ""}, f"import a\n{USER}", ["a.py"], "a module"),
    Case({"lib/a.py": ""}, f"from lib import a\n{USER}", ["lib/a.py"], "a folder without __init__"),
    Case(
        {"lib/__init__.py": "", "lib/a.py": "from . import b", "lib/b.py": ""},
        f"import lib.a\n{USER}",
        ["lib/__init__.py", "lib/a.py", "lib/b.py"],
        "modules of a package, relative ones too",
    ),
    Case({"a.py": "import b", "b.py": "import c", "c.py": ""}, f"import a\n{USER}", ["a.py", "b.py", "c.py"], "chain"),
    Case({"a.py": "", "b.py": ""}, f"{FUNCTION}import a, json\n", ["a.py"], "in a function"),
    Case(
        {"lib/a.py": "def f():\n  from .b import x\n", "lib/b.py": "def g():\n  import c\n", "c.py": ""},
        f"{FUNCTION}from lib.a import f\n",
        ["c.py", "lib/a.py", "lib/b.py"],
        "in functions of modules",
    ),
    Case({"a.py": ""}, f"import importlib\nimportlib.import_module('a')\n{USER}", ["a.py"], "by name"),
    Case({"t/x.yaml": "1"}, f"open('t/x.yaml').read()\n{USER}", ["t/x.yaml"], "a file that it reads"),
    Case({}, f"try:\n  import local\nexcept ImportError: pass\n{USER}", ["local.py"], "a module that may come"),
    Case({"lib/a.py": ""}, f"from lib import a, b\n{USER}", ["lib/a.py", "lib/b.py"], "a missing module"),
    Case({"a.py": "x = ("}, f"import a\n{USER}", ["a.py"], "a broken module"),
    Case({"a.py": "1 / 0"}, f"import a\n{USER}", ["a.py"], "a module that raises"),
    Case({"a.py": "", "user.py": ""}, f"open(__file__).read()\n{USER}", [], "itself"),
]


async def test_a_file_depends_on_what_it_reads_and_on_what_it_imports_later(tmp_path: Path) -> None:
    async with open_zygotes(os.environ) as zygotes:
        found = {case.name: await imports_of(case, tmp_path / str(number), zygotes) for number, case in enumerate(CASES)}

    assert found == {
        case.name: {path: sha256(case.files[path]) if path in case.files else NOT_READ for path in case.imports} for case in CASES
    }


async def imports_of(case: Case, root: Path, zygotes: Zygotes) -> Mapping[str, str]:
    for path, text in case.files.items():
        write_below(root, path, text)
    return (await Parser(small_limits(root), zygotes).parse(write_below(root, "user.py", case.source))).imports


async def test_the_digest_covers_the_imports_and_nothing_else(settings: Settings, write: Write) -> None:
    user = write("user.py", f"import a\n{USER}")
    write("a.py", "1")
    (before,) = await parse(settings, user)
    write("b.py", "2")
    (unrelated,) = await parse(settings, user)
    write("a.py", "2")
    (after,) = await parse(settings, user)

    assert before.digest == unrelated.digest != after.digest


async def test_the_modules_among_the_imports_come_with_their_text(settings: Settings, write: Write) -> None:
    write("lib/a.py", "\N{BYTE ORDER MARK}x = 1")
    write("table.yaml", "1")
    source = f"from lib import a\nopen('table.yaml').read()\n{USER}"

    (parsed,) = await parse(settings, write("user.py", source))

    assert parsed.modules == (ModuleSource("lib/a.py", sha256("\N{BYTE ORDER MARK}x = 1"), "x = 1"),)


async def test_an_application_is_part_of_the_dags_that_submit_it(settings: Settings, write: Write) -> None:
    source = """\
from tidegate import Dag
with Dag("user") as dag:
    dag.submit("load", "./jobs//load.py") >> dag.submit("more", "gone.py") >> dag.submit("java", "load.jar")
    dag.submit("out", "../out.py")
"""
    user = write("user.py", source)
    write("jobs/load.py", "1")
    write("load.jar", "1")
    (before,) = await parse(settings, user)
    write("jobs/load.py", "2")
    write("gone.py", "3")
    (after,) = await parse(settings, user)

    assert before.digest != after.digest
    assert before.modules == (ModuleSource("jobs/load.py", sha256("1"), "1"),)
    assert before.imports == {"jobs/load.py": sha256("1"), "gone.py": NOT_READ, "../out.py": NOT_READ}
    assert _digests(before) == {"load": sha256("1"), "more": "", "java": "", "out": ""}
    assert _digests(after) == {"load": sha256("2"), "more": sha256("3"), "java": "", "out": ""}


def _digests(file: ParsedFile) -> Mapping[str, str]:
    (spec,) = file.dags
    return {task.task_id: task.application_digest for task in spec.tasks if isinstance(task, SubmitTask)}


def test_files_that_changed_since_the_sandbox_read_them_are_not_mixed(root: Path, write: Write) -> None:
    write("a.py", "1")

    assert read_imports(root, {"a.py": sha256("1"), "gone.py": NOT_READ}) == ReadImports(
        {"a.py": sha256("1"), "gone.py": NOT_READ}, (ModuleSource("a.py", sha256("1"), "1"),)
    )
    assert read_imports(root, {"a.py": sha256("2")}) is None
    assert read_imports(root, {"a.py": NOT_READ}) is None


async def test_a_file_that_the_sandbox_may_not_read_counts_with_its_content(settings: Settings, root: Path, write: Write) -> None:
    (root / write("closed.txt", "1")).chmod(0o000)

    (parsed,) = await parse(settings, write("user.py", f"try: open('closed.txt')\nexcept PermissionError: pass\n{USER}"))

    assert (parsed.problem, parsed.imports["closed.txt"]) == (None, content_digest(root, "closed.txt"))


async def test_bytecode_beside_a_module_does_not_hide_the_module(settings: Settings, root: Path, write: Write) -> None:
    write("a.py", "x = 1\n")
    py_compile.compile(str(root / "a.py"), doraise=True)

    (parsed,) = await parse(settings, write("user.py", f"import a\n{USER}"))

    assert list(parsed.imports) == ["a.py"]


async def test_what_is_too_large_or_a_link_has_no_digest(settings: Settings, root: Path, write: Write) -> None:
    write("large.csv", "x" * (MAX_BYTES + 1))
    (root.parent / "outside.txt").write_text("1")
    (root / "link.txt").symlink_to(root.parent / "outside.txt")

    (parsed,) = await parse(settings, write("user.py", f"open('large.csv')\nopen('link.txt')\n{USER}"))

    assert parsed.imports == {"large.csv": NOT_READ, "link.txt": NOT_READ}


async def test_the_number_of_imports_has_a_bound(settings: Settings, write: Write) -> None:
    reads = "for number in range(1200):\n  try: open(f'{number}.txt')\n  except OSError: pass\n"

    (parsed,) = await parse(settings, write("user.py", f"{reads}{USER}"))

    assert (len(parsed.imports), parsed.problem) == (MAX_IMPORTS, None)


async def test_a_missing_module_is_found_when_it_comes(settings: Settings, write: Write) -> None:
    user = write("user.py", f"from lib import a\n{USER}")
    write("lib/b.py", "")

    (before,) = await parse(settings, user)
    write("lib/a.py", "")
    (after,) = await parse(settings, user)

    assert problem(before).reason.startswith("ImportError: cannot import name 'a'")
    assert (after.problem, before.digest == after.digest) == (None, False)


async def test_a_change_of_a_module_reports_exactly_the_files_that_import_it(
    settings: Settings, database: Database, write: Write
) -> None:
    for path in ("a.py", "b.py", "c.py", "lib/common.py", "table.yaml"):
        write(path, "1")
    write(".tidegateignore", "lib/\n")
    database.imports = {"a.py": ["lib/common.py"], "b.py": ["lib/common.py", "table.yaml"]}

    async with watching(settings, database, scan_s=SLOW):
        await until(lambda: database.reports == ["a.py", "b.py", "c.py"])
        await quiet()
        write("lib/common.py", "2")
        await until(lambda: database.reports[3:] == ["a.py", "b.py"])
        write("table.yaml", "2")
        await until(lambda: database.reports[5:] == ["b.py"])
        write("lib/other.py", "2")
        await quiet()

    assert database.reports[6:] == []


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
