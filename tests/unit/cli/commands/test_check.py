"""The output of `tidegate check`."""

import os
from pathlib import Path
from zipfile import ZipFile

import msgspec
import pytest

from tests.unlistable import NAME, unlistable
from tidegate.daemon.cli.app import run
from tidegate.daemon.cli.commands.check import CLOSED, _reject_ignored, reject_duplicates, select
from tidegate.daemon.cli.pages.dag_files import document, lines, notes, short_path
from tidegate.daemon.lint.finding import Finding, Findings
from tidegate.schemas.authoring.build import build
from tidegate.schemas.dag import ImportProblem, ParsedFile

SOURCE = """
from tidegate import Dag, Dataset
a, b, c = Dataset("s://a"), Dataset("s://b"), Dataset("s://c")
with Dag("d", schedule=a & b) as dag:
    dag.command("first", ["true"]) >> dag.empty("last", outlets=[c])
with Dag("by_hand"):
    pass
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


NOTHING = Findings()


def report(files: dict[Path, ParsedFile], found: Findings = NOTHING) -> list[str]:
    return list(lines(files, dict.fromkeys(files, found)))


def parsed(source: str, path: str) -> ParsedFile:
    return ParsedFile(path=path, digest="0", dags=tuple(dag.spec() for dag in build(source, path)))


@pytest.mark.parametrize(
    ("argument", "names"),
    [
        (".", ["a.py", "team.zip", "team.zip/b.py"]),
        ("team.zip", ["team.zip", "team.zip/b.py"]),
        ("team.zip/b.py", ["team.zip/b.py"]),
        ("a.py", ["a.py"]),
    ],
)
@pytest.mark.parametrize("dag_folder", ["", "elsewhere"])
def test_an_archive_is_checked_as_a_whole_or_by_its_files(here: Path, argument: str, names: list[str], dag_folder: str) -> None:
    (here / "a.py").touch()
    with ZipFile(here / "team.zip", "w") as archive:
        archive.writestr("b.py", "")

    assert select([Path(argument)], here / dag_folder).files == {here: names}


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        (".a.py", "daemons ignore it: its name begins with a dot, or .tidegateignore excludes it"),
        ("team.zip/a.py", "its archive has no such file, or .tidegateignore excludes it"),
        ("team.zip", "daemons ignore it: its root has no Python file, or .tidegateignore excludes it or all of these"),
    ],
)
def test_a_file_that_daemons_ignore_says_why(path: str, reason: str) -> None:
    problem = _reject_ignored(ParsedFile(path=path, digest=None)).problem

    assert problem == ImportProblem(reason=reason)


def test_a_folder_that_cannot_be_read_fails_the_check(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    closed = unlistable(here)

    texts = run(["check", "."]), *capsys.readouterr()
    documents = run(["check", ".", "--json"]), msgspec.json.decode(capsys.readouterr().out)

    assert texts == (1, f"{closed}: {CLOSED}\n", "1 folder could not be read\n")
    assert documents[0] == 1
    assert [(it["path"], it["problem"]["reason"]) for it in documents[1]] == [(closed, CLOSED)]


def test_a_folder_whose_name_is_no_text_is_named_in_json() -> None:
    shown = document(Path(os.fsdecode(b"caf\xe9")), ParsedFile(path="team", digest=None), Findings())

    assert msgspec.json.decode(msgspec.json.encode(shown["path"])) == "caf\\udce9"


def test_a_folder_that_cannot_be_read_concerns_the_arguments_that_it_may_hide(here: Path) -> None:
    (here / "a.py").touch()
    closed, open_ = here / unlistable(here), here / "team"
    open_.mkdir()

    assert select([here / NAME], here) == ({here: []}, {closed: None})
    assert select([here / "a.py", open_], here) == ({here: ["a.py"]}, {})


def test_dags_are_drawn_below_their_file_with_their_tasks(here: Path) -> None:
    lines = report({here / "dags" / "d.py": parsed(SOURCE, "d.py")})

    assert lines == [
        "dags/d.py",
        "├── d  when s://a & s://b",
        "│   ├── first  command",
        "│   └── last  empty, after first, updates s://c",
        "└── by_hand  when asked to",
    ]


TIMED = """
from tidegate import Dag, Dataset, DatasetOrTime
with Dag("nightly", schedule="0 3 * * *", timezone="Europe/Zurich") as dag:
    create, use = dag.empty("create"), dag.command("use", ["true"])
    create >> use >> dag.command("alarm", ["true"], trigger_rule="one_failed")
    use >> dag.empty("drop").as_teardown(setups=create)
with Dag("either", schedule=DatasetOrTime(Dataset("s://a"), "@daily")) as dag:
    with dag.group("files"):
        found = dag.command("find", ["true"])
        dag.command("load", ["true"]).expand(over=found)
"""


def test_what_runs_by_time_is_drawn_with_its_timetable_and_its_rules(here: Path) -> None:
    lines = report({here / "t.py": parsed(TIMED, "t.py")})

    assert lines == [
        "t.py",
        "├── nightly  cron 0 3 * * * Europe/Zurich",
        "│   ├── create  empty, setup",
        "│   ├── use  command, after create",
        "│   ├── alarm  command, after use (one_failed)",
        "│   └── drop  empty, teardown of create, after create, use",
        "└── either  when s://a, or cron 0 0 * * * UTC",
        "    └── group files",
        "        ├── files.find  command",
        "        └── files.load  command, for each of files.find, after files.find",
    ]


def test_a_problem_is_one_line_that_editors_understand(here: Path) -> None:
    broken = ParsedFile(path="d.py", digest="0", problem=ImportProblem(reason="SyntaxError: invalid syntax", line=7))

    assert report({here / "d.py": broken}) == ["d.py:7: SyntaxError: invalid syntax"]


def test_a_file_without_dags_is_listed(here: Path) -> None:
    assert report({here / "lib.py": ParsedFile(path="lib.py", digest="0")}) == ["lib.py  no DAGs"]


def test_the_second_file_with_a_dag_is_to_blame(here: Path) -> None:
    one, two = here / "a.py", here / "b.py"

    judged = reject_duplicates({one: parsed(SOURCE, "a.py"), two: parsed(SOURCE, "b.py")})

    assert judged[one].problem is None
    assert report(dict(judged))[-1] == "b.py: DAG 'd' is also in a.py, DAG 'by_hand' is also in a.py"


def test_a_path_elsewhere_is_shown_whole(here: Path) -> None:
    assert short_path(here.parent / "d.py") == str(here.parent / "d.py")


FOUND = Findings(
    (Finding(dag_id="d", task_id="first", line=5, reason="argument 1 cannot be rendered"),),
    (Finding(dag_id="d", reason="dataset s://a has had no event"),),
)


def test_mistakes_are_lines_before_the_tree_and_in_json_the_first_is_the_problem(here: Path) -> None:
    path, file = here / "d.py", parsed(SOURCE, "d.py")

    assert report({path: file}, FOUND)[:2] == ["d.py:5: DAG 'd', task 'first': argument 1 cannot be rendered", "d.py"]
    assert list(notes({path: parsed(SOURCE, "d.py")}, {path: FOUND})) == ["d.py: note: DAG 'd': dataset s://a has had no event"]
    assert document(path, file, FOUND)["problem"] == ImportProblem(
        reason="DAG 'd', task 'first': argument 1 cannot be rendered", line=5
    )
    assert document(path, file, NOTHING)["problem"] is None


def test_a_file_that_does_not_compile_is_noted_whatever_it_names(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "daily.py").write_text("def broken(:\n")

    run(["check", "daily.py"])

    said = capsys.readouterr()
    assert "daily.py  no DAGs" in said.out
    assert said.err == (
        "daily.py:1: note: it does not compile, and is broken if it had DAGs; no name in it speaks of any, so else it is no DAG"
        " file: SyntaxError: invalid syntax\n"
    )
