"""Zip archives in the DAG folder: what is parsed of them, and what their changes cause."""

from collections.abc import Mapping
from pathlib import Path
from zipfile import ZipFile

from tests.integration.dagfiles.conftest import Write, parse, problem, until
from tests.integration.dagfiles.watched_folder import SLOW, Database, quiet, watching
from tidegate.daemon.dagfiles.message import MAX_BYTES
from tidegate.daemon.dagfiles.source import content_digest
from tidegate.daemon.settings import Settings
from tidegate.schemas.dag import ModuleSource

DAILY = "from names import NAME\nfrom tidegate import Dag\nwith Dag(NAME) as dag:\n    dag.empty('start')\n"
FILES = {"daily.py": DAILY, "names.py": "from lib.part import NAME\n", "lib/__init__.py": "", "lib/part.py": "NAME = 'daily'\n"}


def pack(path: Path, files: Mapping[str, str]) -> str:
    """Write an archive beside its place and put it there, as a deployment does; returns its name."""
    draft = path.with_name(".draft")
    with ZipFile(draft, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    draft.replace(path)
    return path.name


async def test_a_file_of_an_archive_imports_from_the_archive_first_and_then_from_the_folder(
    settings: Settings, root: Path, write: Write
) -> None:
    write("lib/part.py", "NAME = 'of the folder'\n")
    write("common.py", "")
    text = f"{DAILY}    dag.submit('load', 'team.zip/lib/part.py')\n"
    pack(root / "team.zip", {**FILES, "daily.py": text, "names.py": f"import common\n{FILES['names.py']}"})

    daily, archive = await parse(settings, "team.zip/daily.py", "team.zip")

    assert [spec.dag_id for spec in daily.dags] == ["daily"]
    assert (daily.problem, daily.source) == (None, text)
    assert sorted(module.path for module in daily.modules) == [
        "common.py",
        *sorted(f"team.zip/{name}" for name in FILES if name != "daily.py"),
    ]
    assert ModuleSource("team.zip/lib/part.py", content_digest(root, "team.zip/lib/part.py"), "NAME = 'daily'\n") in daily.modules
    assert daily.imports == {path: content_digest(root, path) for path in ("common.py", "team.zip/", "team.zip/lib/part.py")}
    assert (archive.dags, archive.problem, archive.digest) == ((), None, content_digest(root, "team.zip/"))


async def test_an_error_names_the_file_and_the_line_in_the_archive(settings: Settings, root: Path) -> None:
    pack(
        root / "team.zip",
        {
            "names.py": "NAME = (\n",
            "daily.py": f"\n{DAILY}",
            "broken.py": "from tidegate import Dag\n\nDag('a b')\n",
            "gone.py": "import missing, tidegate",
        },
    )

    daily, broken, gone = await parse(settings, "team.zip/daily.py", "team.zip/broken.py", "team.zip/gone.py")

    assert "names.py, line 1" in problem(daily).reason
    assert (problem(daily).line, problem(broken).line) == (2, 3)
    assert problem(gone).reason.startswith("No module named 'missing'; install it")


async def test_what_is_not_in_the_archive_is_absent_and_a_folder_may_be_named_like_one(
    settings: Settings, root: Path, write: Write
) -> None:
    pack(root / "team.zip", FILES)
    write("folder.zip/daily.py", "from tidegate import Dag\nDag('of_a_folder')\n")
    pack(root / "lib.zip", {"lib/part.py": ""})
    pack(root / "ignored.zip", FILES)
    write(".tidegateignore", "team.zip/names.py\nignored.zip/*.py\n")

    names = (
        "team.zip/lib/part.py",
        "team.zip/other.py",
        "no.zip/daily.py",
        "no.zip",
        "folder.zip",
        "team.zip/names.py",
        "lib.zip",
        "ignored.zip",
    )
    found = await parse(settings, *names)
    (of_folder,) = await parse(settings, "folder.zip/daily.py")

    assert [file.digest for file in found] == [None] * len(names)
    assert [spec.dag_id for spec in of_folder.dags] == ["of_a_folder"]


async def test_an_archive_that_is_refused_says_so_for_each_of_its_files(settings: Settings, root: Path) -> None:
    pack(root / "team.zip", {"daily.py": "", "/etc/x.py": ""})
    (root / "link.zip").symlink_to(root / "team.zip")

    archive, daily, link = await parse(settings, "team.zip", "team.zip/daily.py", "link.zip")

    assert problem(archive).reason == problem(daily).reason
    assert problem(archive).reason.startswith("entry '/etc/x.py': names are relative")
    assert archive.digest == daily.digest == content_digest(root, "team.zip/")
    assert problem(link).reason.startswith("link.zip is a symbolic link")


async def test_a_file_that_reads_inside_an_archive_or_a_large_one_parses_once(settings: Settings, root: Path) -> None:
    """Neither is a file that it depends on, so the digests at the sandbox and here do not differ."""
    pack(root / "large.zip", {"data.csv": "x" * (MAX_BYTES + 1)})
    tries = "try: open(__file__.replace('daily', 'names'))\nexcept OSError: pass\n"
    pack(root / "team.zip", {**FILES, "daily.py": f"{tries}open('large.zip')\n{DAILY}"})

    (daily,) = await parse(settings, "team.zip/daily.py")

    assert (daily.problem, set(daily.imports)) == (None, {"large.zip", "team.zip/"})


async def test_a_change_of_an_archive_is_one_report(settings: Settings, database: Database, root: Path, write: Write) -> None:
    write("a.py", "1")
    pack(root / "data.zip", {"table.csv": "1"})
    pack(root / "team.zip", FILES)
    database.archives = {"team.zip": ["daily.py", "names.py"]}

    async with watching(settings, database, scan_s=SLOW):
        await until(lambda: database.reports == ["a.py", "team.zip"])
        pack(root / "team.zip", {**FILES, "table.csv": "not a module"})
        await quiet()
        pack(root / "team.zip", {**FILES, "lib/part.py": "NAME = 'weekly'\n"})
        await until(lambda: database.reports[2:] == ["team.zip"])
        (root / "team.zip").write_text("broken")
        await until(lambda: database.reports[3:] == ["team.zip"])
        await quiet()

    assert database.reports[4:] == []
    assert {path for path, digest in database.known.items() if digest == content_digest(root, "team.zip/")} == {
        "team.zip",
        "team.zip/daily.py",
        "team.zip/names.py",
    }


async def test_a_deleted_archive_is_reported_until_its_files_are_recorded_as_gone(
    settings: Settings, database: Database, root: Path
) -> None:
    pack(root / "team.zip", FILES)
    database.archives = {"team.zip": ["daily.py", "names.py"]}

    async with watching(settings, database, scan_s=0.1):
        await until(lambda: database.reports == ["team.zip"])
        (root / "team.zip").unlink()
        await until(lambda: not database.known)

    assert database.reports == ["team.zip"] * 3


async def test_files_and_modules_of_an_archive_and_of_the_folder_may_have_dataclasses_with_annotations_as_texts(
    settings: Settings, root: Path, write: Write
) -> None:
    table = "from __future__ import annotations\nfrom dataclasses import dataclass\n@dataclass\nclass Table:\n    name: str\n"
    text = f"{table}from lib.part import Table as Part\nfrom tidegate import Dag\nDag(Table(Part('daily').name).name)\n"
    pack(root / "team.zip", {"daily.py": text, "lib/part.py": table})
    write("lib/part.py", table)

    found = await parse(settings, "team.zip/daily.py", write("daily.py", text))

    assert [(file.problem, [spec.dag_id for spec in file.dags]) for file in found] == [(None, ["daily"])] * 2
