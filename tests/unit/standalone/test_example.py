"""Where the example and the DAG folder of a standalone come from."""

import os
from collections.abc import Callable, Mapping, Sequence
from errno import ENOSPC
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tidegate.daemon.cli.app import run
from tidegate.daemon.settings import Settings, dags_root
from tidegate.daemon.standalone import stack
from tidegate.daemon.standalone.command import Options, main
from tidegate.daemon.standalone.example import pipelines
from tidegate.daemon.standalone.example.pipelines import SHIPPED, install
from tidegate.daemon.standalone.process import ServerError

FILES = sorted(file.name for file in SHIPPED.glob("*.py"))


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def test_the_example_is_installed_once_into_an_empty_folder_and_what_is_deleted_stays_so(tmp_path: Path) -> None:
    stack.create_folder(dags := stack.own_dags(tmp_path))

    assert (install(tmp_path, dags), names(dags)) == (True, FILES)
    for name in FILES:
        (dags / name).unlink()
        assert (install(tmp_path, dags), (dags / name).exists()) == (False, False)


def test_the_example_leaves_a_used_folder_alone_also_when_it_is_emptied(tmp_path: Path) -> None:
    stack.create_folder(dags := stack.own_dags(tmp_path))
    (dags / "mine.py").touch()

    assert (install(tmp_path, dags), names(dags)) == (False, ["mine.py"])
    (dags / "mine.py").unlink()
    assert (install(tmp_path, dags), names(dags)) == (False, [])


def test_the_example_is_installed_into_a_folder_that_cannot_be_replaced(tmp_path: Path) -> None:
    (target := tmp_path / "elsewhere/dags").mkdir(parents=True)
    (dags := stack.own_dags(tmp_path)).symlink_to(target)

    assert (install(tmp_path, dags), names(target)) == (True, FILES)
    assert running(tmp_path, dags).lake == tmp_path / "elsewhere/lake"


def test_an_interrupted_installation_is_begun_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stack.create_folder(dags := stack.own_dags(tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(pipelines, "_copy", fail_after(pipelines._copy))
        with pytest.raises(ServerError, match=rf"{dags}.*: No space left on device; try --no-example"):
            install(tmp_path, dags)
    before = names(dags)

    assert (install(tmp_path, dags), len(before), names(dags)) == (True, 1, FILES)


def fail_after(copy: Callable[[Path, Path], None]) -> Callable[[Path, Path], None]:
    """The first copy, and then a full disk."""

    def first(file: Path, folder: Path) -> None:
        if names(folder):
            raise OSError(ENOSPC, os.strerror(ENOSPC), str(folder))
        copy(file, folder)

    return first


def running(home: Path, dags: Path) -> stack.Stack:
    missing: Any = None
    return stack.Stack({"dags_folder": str(dags)}, (), missing, home, missing)


def test_the_example_runs_with_its_files_in_the_folder_of_the_standalone(tmp_path: Path) -> None:
    stack.create_folder(dags := stack.own_dags(tmp_path))
    install(tmp_path, dags)
    installed = running(tmp_path, dags).obstacle
    (dags / FILES[0]).unlink()

    assert installed == ""
    assert running(tmp_path, SHIPPED).obstacle == "TIDEGATE_DAGS_FOLDER is set"
    assert running(tmp_path, dags).obstacle == f"{dags} has no {FILES[0]}"


@pytest.mark.parametrize(
    ("folder", "reason"), [("elsewhere", "TIDEGATE_DAGS_FOLDER is set"), ("", r".*/data/dags has no daily_delays.py, no day_")]
)
def test_once_is_refused_before_a_server_starts_if_the_example_cannot_run(folder: str, reason: str, tmp_path: Path) -> None:
    home, settings = tmp_path / "data", Settings(postgres_dsn="", kafka_servers="")
    (dags := tmp_path / folder if folder else stack.own_dags(home)).mkdir(parents=True)
    (dags / "mine.py").touch()

    with pytest.raises(
        ServerError, match=f"the example, which cannot run, because {reason}.*; the example runs with another --data"
    ):
        main(Options(data=home, once=True), msgspec.structs.replace(settings, dags_folder=str(dags)))

    assert not (home / "postgres").exists()


def test_once_without_the_example_is_refused_before_a_server_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert run(["standalone", "--once", "--no-example", "--data", "data"]) == 2

    why = "it stops after the example, which --no-example leaves out; give one of the two"
    assert f"invalid value for --once: {why}" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("options", "environ", "folder"),
    [
        ((), {}, "data/dags"),
        ((), {"TIDEGATE_DAGS_FOLDER": "mine"}, "mine"),
        (("--dags-folder", "mine"), {"TIDEGATE_DAGS_FOLDER": "other"}, "mine"),
        ((), {"TIDEGATE_DAGS_FOLDER": "dags"}, "dags"),
    ],
)
def test_the_dag_folder_is_the_one_that_is_set_else_in_the_data_folder(
    options: Sequence[str], environ: Mapping[str, str], folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Settings] = []

    def taken(_: Options, settings: Settings) -> int:
        given.append(settings)
        return 0

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tidegate.daemon.standalone.command.main", taken)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)

    assert run([*options, "standalone", "--data", "data"]) == 0

    assert list(map(dags_root, given)) == [tmp_path / folder]


def test_a_dag_folder_that_cannot_be_created_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(ServerError, match=r"the DAG folder .*/file/dags cannot be created: Not a directory; set TIDEGATE_DAGS"):
        stack.create_folder(tmp_path / "file/dags")
