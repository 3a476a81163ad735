"""The page of `tidegate check --sandbox`."""

from pathlib import Path

import pytest

from tidegate.daemon.cli.commands.check_sandbox import sandbox_of
from tidegate.daemon.cli.pages.sandbox import print_sandbox
from tidegate.daemon.dagfiles.isolation import Isolation
from tidegate.daemon.dagfiles.message import Hello
from tidegate.daemon.settings import Settings


def settings(dags: Path, spool: Path) -> Settings:
    return Settings(postgres_dsn="", kafka_servers="", dags_folder=str(dags), spool_dir=str(spool), secrets_dir="/none/secrets")


def test_a_host_that_permits_all_leaves_nothing_open(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = sandbox_of(settings(tmp_path / "dags", tmp_path / "spool"), Hello(Isolation(landlock=7), (), as_nobody=False))

    print_sandbox(found)

    assert (found.reachable, found.exposed, found.hint) == ((), (), "")
    assert found.readable == (str(tmp_path / "dags"),)
    said = capsys.readouterr().out
    assert "Landlock                active  files of the host" in said
    assert "DAG files reach\n  nothing\n" in said


def test_what_is_open_and_how_to_close_it_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    host = Hello(Isolation(files="landlock: Function not implemented"), (str(tmp_path),), as_nobody=True)
    found = sandbox_of(settings(tmp_path / "dags", tmp_path / "spool"), host)

    print_sandbox(found)

    said = capsys.readouterr().out
    assert "DAG files reach\n  files that all users may read\n  names and arguments of processes\n" in said
    assert f"TIDEGATE_SPOOL_DIR is {tmp_path}/spool, which DAG files may read because of {tmp_path}; move it elsewhere" in said
    assert said.endswith("To close it: boot a kernel from 5.13 with landlock in its lsm= list\n")
