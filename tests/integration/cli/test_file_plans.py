"""`tidegate dags plan`: files of a real DAG folder against a real database."""

from pathlib import Path

import pytest

from tests.integration.cli.conftest import Cli
from tests.integration.cli.history import DAILY, History
from tests.unlistable import unlistable
from tidegate.daemon.cli.pages.file_plan import NOT_READ

OTHER = """
from tidegate import Dag, Dataset
with Dag("other", schedule=Dataset("lake://flights"), catchup=True) as dag:
    dag.command("only", ["true"], outlets=[Dataset("lake://other")])
"""
HOURLY = """
from datetime import UTC, datetime
from tidegate import Dag
with Dag("hourly", schedule="0 * * * *", start_date=datetime(2100, 1, 1, tzinfo=UTC)):
    pass
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TIDEGATE_DAGS_FOLDER", str(tmp_path / "dags"))
    (tmp_path / "dags").mkdir()
    return tmp_path / "dags"


async def test_a_plan_says_what_comes_changes_and_goes_and_changes_nothing(cli: Cli, history: History, folder: Path) -> None:
    await history.file()
    await history.file(HOURLY, "hourly.py")
    await history.run()
    await history.updated("lake://flights", "f-2")
    changed = DAILY.replace("flights & weather", "flights").replace('"SELECT 1"', '"SELECT 2"')
    (folder / "daily.py").write_text(changed)
    (folder / "other.py").write_text(OTHER)

    answer = await cli("dags", "plan")

    assert (answer.code, answer.err) == (4, "1 DAG added, 1 DAG changed, 1 DAG removed\n")
    assert answer.out.splitlines() == [
        "daily_delays: changed",
        "  file      daily.py",
        "  version   1 → 2",
        "  schedule  lake://flights & lake://weather → lake://flights",
        "  inputs    - lake://weather",
        '  changes   task report: sql "SELECT 1" → "SELECT 2"',
        "  starts    1 dataset run at once",
        "  goes on   1 running run with version 1",
        "  events    1 consumed by the run that starts",
        "",
        "hourly: removed",
        "  file      hourly.py",
        "  version   1",
        "  schedule  none: it starts no more runs",
        "  next run  2100-01-01 00:00:00Z → none by time",
        "",
        "other: added",
        "  file      other.py",
        "  version   1",
        "  schedule  lake://flights",
        "  inputs    + lake://flights",
        "  outlets   + lake://other",
        "  starts    1 dataset run at once",
        "  events    2 recorded before become pending",
        "  events    2 consumed by the run that starts",
    ]
    assert [dag["version"] for dag in (await cli("dags", "list", "--json")).json] == [1, 1]


async def test_a_plan_of_some_files_has_those_alone(cli: Cli, history: History, folder: Path) -> None:
    await history.file()
    (folder / "team").mkdir()
    (folder / "team" / "other.py").write_text(OTHER)
    (folder / "team" / "lib.py").write_text("TABLE = 1\n")
    (folder / "hourly.py").write_text(f"import team.lib\n{HOURLY}")
    (folder / "daily.py").write_text(f"# a comment{DAILY}")

    unchanged = await cli("dags", "plan", "daily.py")
    of_folder = await cli("dags", "plan", str(folder / "team"), "--json")
    whole, of_all = await cli("dags", "plan"), await cli("dags", "plan", str(folder), "daily.py")

    assert (unchanged.code, unchanged.out, unchanged.err) == (0, "", "nothing changes\n")
    assert [(dag["dag_id"], dag["action"]) for dag in of_folder.json["dags"]] == [("other", "added")]
    assert (whole.out, whole.err) == (of_all.out, of_all.err)
    assert of_all.err == "2 DAGs added\n"


async def test_a_dag_whose_decision_fails_hides_no_other(cli: Cli, history: History, folder: Path) -> None:
    await history.file()
    await history.run()
    await history.database.pool.execute("UPDATE dag_version SET spec = '{}'")
    (folder / "daily.py").write_text(DAILY)
    (folder / "hourly.py").write_text(HOURLY)

    answer = await cli("dags", "plan")

    assert answer.code == 1
    assert answer.out.startswith("daily.py: this cannot be planned: DAG 'daily_delays': its version 1 cannot be read: ")
    assert "\n\nhourly: added\n" in answer.out
    assert answer.err == "1 DAG added, 1 file not planned\n"


async def test_a_missing_dag_folder_is_an_error_and_deletes_nothing(cli: Cli, history: History, folder: Path) -> None:
    await history.file()
    (folder / ".tidegateignore").mkdir()

    unknown = await cli("dags", "plan")
    (folder / ".tidegateignore").rmdir()
    folder.rmdir()
    answer = await cli("dags", "plan")

    assert (unknown.code, unknown.out) == (1, "")
    assert unknown.err == "tidegate: .tidegateignore cannot be read: Is a directory; mend it, or delete it\n"

    assert (answer.code, answer.out) == (1, "")
    assert answer.err == f"tidegate: the DAG folder {folder} does not exist; set TIDEGATE_DAGS_FOLDER\n"


async def test_a_folder_that_cannot_be_read_is_named_and_keeps_its_files(cli: Cli, history: History, folder: Path) -> None:
    closed = unlistable(folder)
    (folder / "lib.py").touch()

    without, other = await cli("dags", "plan"), await cli("dags", "plan", "lib.py")
    await history.file(path=f"{closed}/daily.py")
    with_one, still = await cli("dags", "plan"), await cli("dags", "plan", "lib.py")

    assert (without.code, without.out, without.err) == (1, f"{closed}: {NOT_READ}\n", "1 folder not read\n")
    assert (with_one.code, with_one.out) == (1, "")
    assert with_one.err == f"tidegate: these folders of the DAG folder cannot be read: {closed}; mend their permissions\n"
    said = f"note: the folder {closed} cannot be read; the plan does not concern it\nnothing changes\n"
    assert [(it.code, it.out, it.err) for it in (other, still)] == [(0, "", said)] * 2


async def test_broken_files_and_unknown_ones_are_errors(cli: Cli, history: History, folder: Path) -> None:
    await history.file()
    (folder / "daily.py").write_text("from tidegate import Dag\nDag(\n")

    broken = await cli("dags", "plan", "daily.py")
    unknown = await cli("dags", "plan", "missing.py")
    outside = await cli("dags", "plan", "../a.py")

    assert broken.code == 1
    assert broken.out.startswith("daily.py:2: SyntaxError: ")
    assert broken.out.endswith("; its DAGs stay as they are: daily_delays\n")
    assert (broken.err, unknown.code) == ("1 file not taken up\n", 1)
    assert unknown.err.startswith("tidegate: missing.py is no DAG file: ")
    assert (outside.code, "is not below the DAG folder" in outside.err) == (2, True)


@pytest.mark.parametrize(
    ("paused", "setting", "line"),
    [
        ("False", "false", "  starts    10 scheduled runs at once, and 447 follow"),
        ("True", "false", "  waits     457 runs by time, which start when the DAG is unpaused"),
        ("False", "true", "  waits     457 runs by time, which start when the DAG is unpaused"),
    ],
)
async def test_a_plan_says_how_many_runs_a_dag_catches_up(
    cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch, paused: str, setting: str, line: str
) -> None:
    monkeypatch.setenv("TIDEGATE_NEW_DAGS_PAUSED", setting)
    dates = "start_date=datetime(2020, 1, 1, tzinfo=UTC), end_date=datetime(2020, 1, 20, tzinfo=UTC)"
    options = f"schedule='@hourly', catchup=True, max_active_runs=1, paused={paused}, {dates}"
    (folder / "late.py").write_text(f"from datetime import UTC, datetime\nfrom tidegate import Dag\nDag('late', {options})\n")

    answer = await cli("dags", "plan")

    assert line in answer.out.splitlines()
