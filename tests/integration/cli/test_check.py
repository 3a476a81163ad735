"""`tidegate check` beside a real database: the pools and the datasets that DAG files name."""

from pathlib import Path

import pytest

from tests.integration.cli.conftest import Cli
from tests.integration.cli.history import History

PRODUCER = """
from tidegate import Dag, Dataset
with Dag("producer") as dag:
    dag.empty("make", outlets=[Dataset("lake://made")])
"""
NEW = """
from tidegate import Dag, Dataset
with Dag("new", schedule=Dataset("lake://made") & Dataset("lake://had") & Dataset("lake://mad")) as dag:
    dag.command("load", ["true"], pool="repots")
"""


async def test_pools_and_datasets_are_compared_with_the_server(cli: Cli, history: History, tmp_path: Path) -> None:
    await history.file(PRODUCER)
    await history.updated("lake://had")
    await cli("pools", "set", "reports", "2")
    (tmp_path / "new.py").write_text(NEW)

    answer = await cli("check", str(tmp_path / "new.py"))

    assert answer.code == 0
    assert "new.py:4: note: DAG 'new', task 'load': pool 'repots' does not exist; did you mean reports?" in answer.err
    assert "new.py:3: note: DAG 'new': dataset lake://mad has had no event, and no task updates it\n" in answer.err
    assert "lake://made" not in answer.err
    assert "lake://had " not in answer.err


async def test_a_server_that_is_away_is_told_after_the_files(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_POSTGRES_DSN", "postgresql://nobody@127.0.0.1:1/none")
    (tmp_path / "good.py").write_text(PRODUCER)
    (tmp_path / "bad.py").write_text(NEW.replace('["true"]', '["{{ dss }}"]'))

    good, both = await cli("check", str(tmp_path / "good.py")), await cli("check", str(tmp_path))

    assert good.code == 3
    assert "producer  when asked to" in good.out
    assert both.code == 1
    assert "pools and datasets were not compared: " in both.err
