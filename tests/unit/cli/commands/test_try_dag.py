"""`tidegate dags test`: what it prints, and its exit codes."""

import json
from pathlib import Path
from zipfile import ZipFile

import pytest

from tidegate.daemon.cli.app import run

DAG = """
from helper import NAME
from tidegate import Dag, Dataset
with Dag("d", schedule=Dataset("lake://a", where="rows > 0")) as dag:

    @dag.task(outlets=[Dataset("lake://b")])
    def load(spark, run):
        if run.events[0].extra["rows"] > 9:
            raise ValueError("too many")
        print("loading")
        run.outlets["lake://b"].extra["name"] = NAME
        return run.events[0].extra["rows"]

    load >> dag.command("tell", ["true"])
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TIDEGATE_DAGS_FOLDER", str(tmp_path))
    (tmp_path / "helper.py").write_text("NAME = 'x'\n")
    (tmp_path / "d.py").write_text(DAG)
    return tmp_path


def test_a_run_is_a_table_with_its_events(capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["dags", "test", "d.py", "--event", 'lake://a={"rows": 3}', "--event", 'lake://a={"rows": 0}'])

    heading, *lines = capsys.readouterr().out.splitlines()
    assert code == 0
    assert (heading.startswith("dataset__"), heading.endswith("  success")) == (True, True)
    assert lines == [
        "TASK  STATE    TRY  REASON  RESULT",
        "load  success  1    -       3",
        "tell  success  1    -       -",
        'publishes lake://b {"name":"x"}',
        'discarded lake://a {"rows":0}: no filter of the DAG accepts it',
    ]


def test_a_failed_run_is_exit_code_1_and_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["dags", "test", "d.py", "--event", 'lake://a={"rows": 10}', "--json"])

    (run_,) = json.loads(capsys.readouterr().out)["runs"]
    assert (code, run_["state"], run_["tasks"]["tell"]["state"]) == (1, "failed", "upstream_failed")
    assert run_["tasks"]["load"]["reason"] == "ValueError: too many (d.py, line 9)"


def test_what_the_file_and_its_children_print_is_not_the_answer(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (here / "d.py").write_text(
        "import subprocess\nprint('read')\n"
        + DAG.replace('print("loading")', 'subprocess.run(["echo", "of a child"], check=True); print("loading")')
    )

    code = run(["dags", "test", "d.py", "--event", 'lake://a={"rows": 3}', "--json"])

    printed = capfd.readouterr()
    assert (code, len(json.loads(printed.out)["runs"])) == (0, 1)
    assert [line for line in printed.err.splitlines() if line in ("read", "of a child", "loading")] == [
        "read",
        "of a child",
        "loading",
    ]


def test_a_file_of_an_archive_is_run_with_the_modules_of_the_archive(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ZipFile(here / "team.zip", "w") as archive:
        archive.writestr("d.py", DAG.replace("from helper", "from archived_helper"))
        archive.writestr("archived_helper.py", "NAME = 'of the archive'\n")

    codes = [run(["dags", "test", path, "--event", 'lake://a={"rows": 3}']) for path in ("team.zip/d.py", "team.zip/e.py")]

    printed = capsys.readouterr()
    assert codes == [0, 1]
    assert 'publishes lake://b {"name":"of the archive"}' in printed.out.splitlines()
    assert "team.zip/e.py builds no DAGs: FileNotFoundError: there is no such file in team.zip; " in printed.err


def test_an_archive_itself_is_no_file_to_run(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ZipFile(here / "team.zip", "w") as archive:
        archive.writestr("d.py", DAG)

    code = run(["dags", "test", "team.zip"])

    assert (code, "team.zip is an archive; name one of its files: team.zip/d.py" in capsys.readouterr().err) == (1, True)


def test_of_named_tasks_only_those_do_their_work() -> None:
    assert run(["dags", "test", "d.py", "--event", 'lake://a={"rows": 10}', "--task", "tell"]) == 0


MAPPED = """
from tidegate import Dag
with Dag("m") as dag:

    @dag.task
    def carriers(spark, run):
        return ["AA", "UA"]

    @dag.task
    def load(spark, run):
        return run.item

    load.expand(over=carriers) >> dag.command("tell", ["true"])
"""


@pytest.mark.parametrize(
    ("named", "code", "shown"),
    [
        (["tell"], 0, ["carriers", "load", "load[0]", "tell"]),
        (["load", "carriers"], 0, ["carriers", "load", "load[0]", "load[1]", "tell"]),
        (["load"], 1, []),
    ],
)
def test_a_mapped_task_needs_the_one_that_returns_its_list(
    named: list[str], code: int, shown: list[str], here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "m.py").write_text(MAPPED)

    assert run(["dags", "test", "m.py", *(word for task in named for word in ("--task", task))]) == code

    out, err = capsys.readouterr()
    assert [line.split()[0] for line in out.splitlines()[2:]] == shown
    assert ("task 'load' is mapped over the result of 'carriers': add --task carriers" in err) is (code == 1)


def test_a_file_outside_of_the_dag_folder_imports_what_is_beside_it(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder, name in (("dags", "of the folder"), ("other", "beside")):
        (here / folder).mkdir()
        (here / folder / "neighbour.py").write_text(f"NAME = {name!r}\n")
    (here / "other" / "o.py").write_text(
        "\ufefffrom neighbour import NAME\nfrom tidegate import Dag\n"
        "with Dag('o') as dag:\n    dag.task(lambda spark, run: NAME, task_id='t')\n"
    )
    monkeypatch.setenv("TIDEGATE_DAGS_FOLDER", str(here / "dags"))

    assert run(["dags", "test", "other/o.py"]) == 0
    assert capsys.readouterr().out.splitlines()[2].endswith('"beside"')


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["d.py"], 1, "there is no run: the DAG waits for its condition to hold"),
        (["d.py", "--task", "laod"], 1, "DAG 'd' has no task 'laod'; did you mean load?"),
        (["d.py", "--dag", "e"], 1, "d.py has no DAG 'e'"),
        (["helper.py"], 1, "helper.py has no DAGs"),
        (["gone.py"], 1, "gone.py builds no DAGs: FileNotFoundError"),
        (["broken.py"], 1, "broken.py builds no DAGs: SyntaxError"),
        (["leaves.py"], 1, "leaves.py builds no DAGs: SystemExit: 0"),
        (["d.py", "--event", "lake://a={x}"], 2, "write a JSON object"),
        (["d.py", "--event", "lake://a", "--conf", "{}"], 1, "events start runs"),
    ],
)
def test_what_cannot_be_tested_is_one_sentence(
    args: list[str], code: int, said: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "broken.py").write_text("with (")
    (here / "leaves.py").write_text("raise SystemExit(0)")

    assert run(["dags", "test", *args]) == code
    assert said in capsys.readouterr().err
