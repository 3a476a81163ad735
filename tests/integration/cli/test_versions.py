"""`tidegate dags versions` and `dags source`: the way back to a former version."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.integration.cli.conftest import Cli
from tests.integration.cli.history import DAILY, History
from tidegate.daemon.engine import Batch, apply
from tidegate.schemas.dag import DagSpec, FunctionTask, ModuleSource, ParsedFile
from tidegate.schemas.message import Message


async def test_a_former_version_is_written_over_the_file_and_becomes_the_newest(
    cli: Cli, history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_DAGS_FOLDER", str(tmp_path / "dags"))
    await history.file()
    await history.file(DAILY.replace("SELECT 1", "SELECT 2"))

    versions = await cli("dags", "versions", "daily_delays")
    printed = await cli("dags", "source", "daily_delays", "--version", "1")
    written = await cli("dags", "source", "daily_delays", "--version", "1", "--into", str(tmp_path / "dags"))
    plan = await cli("dags", "plan")

    assert [(row[0], row[-1]) for row in versions.rows] == [("VERSION", "FILE"), ("2", "daily.py"), ("1", "daily.py")]
    assert printed.out == DAILY
    assert written.out == f"wrote {tmp_path}/dags/daily.py\n"
    assert (plan.code, plan.err) == (4, "1 DAG changed\n")
    assert '  changes   task report: sql "SELECT 2" → "SELECT 1"' in plan.out.splitlines()
    assert "  version   2 → 3" in plan.out.splitlines()


async def test_modules_of_functions_are_written_before_the_file(cli: Cli, history: History, tmp_path: Path) -> None:
    modules = (ModuleSource("lib/common.py", "1", "TABLE = 1\r\n"),)
    spec = DagSpec(dag_id="f", tasks=(FunctionTask(task_id="t"),))
    file = ParsedFile(path="jobs/f.py", digest="1", source="import lib.common\n", dags=(spec,), modules=modules)
    await apply(history.database, Batch(messages=[Message(body=file, at=datetime.now(UTC))]))

    answer = await cli("dags", "source", "f", "--into", str(tmp_path))

    assert answer.out == f"wrote {tmp_path}/lib/common.py\nwrote {tmp_path}/jobs/f.py\n"
    assert (tmp_path / "jobs/f.py").read_bytes() == b"import lib.common\n"
    assert (tmp_path / "lib/common.py").read_bytes() == b"TABLE = 1\r\n"


async def test_the_file_of_an_archive_is_written_beside_the_archive(cli: Cli, history: History, tmp_path: Path) -> None:
    await history.file(DAILY, "team.zip/daily.py")
    (tmp_path / "team.zip").touch()

    refused = await cli("dags", "source", "daily_delays", "--into", str(tmp_path))
    written = await cli("dags", "source", "daily_delays", "--into", str(tmp_path / "former"))

    archive = f"{tmp_path}/team.zip is an archive; write team.zip/daily.py into another folder, and pack the archive again"
    assert (refused.code, refused.err) == (1, f"tidegate: {archive}\n")
    assert written.out == f"wrote {tmp_path}/former/team.zip/daily.py\n"


async def test_unknown_dags_and_versions_are_named(cli: Cli, history: History) -> None:
    await history.file()

    unknown, version = await cli("dags", "versions", "x"), await cli("dags", "source", "daily_delays", "--version", "7")

    assert (unknown.code, version.code) == (1, 1)
    assert unknown.err.startswith("tidegate: there is no DAG 'x'")
    assert version.err == "tidegate: DAG 'daily_delays' has no version 7; its newest one is 1\n"
