"""`tidegate dags notify`: events of changed DAG files, to a real Kafka."""

import json
from pathlib import Path

import pytest

from tests.integration.cli.conftest import Cli
from tests.integration.cli.test_datasets import records


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TIDEGATE_DAGS_FOLDER", str(tmp_path / "dags"))
    return tmp_path / "dags"


async def test_each_dag_file_is_published_once_and_others_are_named(
    cli: Cli, kafka: str, topic_prefix: str, folder: Path
) -> None:
    at = ("--kafka-servers", kafka, "--topic-prefix", topic_prefix)
    await cli(*at, "topics", "create", "--partitions", "1")

    (folder / "named_like_an_archive.zip").mkdir(parents=True)
    paths = ("a.py", "team/b.py", "c.zip", "d.zip", "named_like_an_archive.zip/e.py")

    named = ("a.py", str(folder / "team/b.py"), "team/../a.py", "README.md", "c.zip", "c.zip/lib/x.py", "d.zip/y.py", paths[-1])
    answer = await cli(*at, "dags", "notify", *named, "--json")

    assert (answer.code, [event["path"] for event in answer.json]) == (0, list(paths))
    assert answer.err == "no DAG files, left out: README.md\n"
    published = await records(kafka, f"{topic_prefix}dag-file-changed", len(paths))
    assert [json.loads(record.value or b"")["path"] for record in published] == list(paths)


@pytest.mark.parametrize("path", ["../a.py", "/etc/a.py", "."])
async def test_a_path_outside_of_the_dag_folder_is_refused(cli: Cli, kafka: str, folder: Path, path: str) -> None:
    answer = await cli("--kafka-servers", kafka, "dags", "notify", "a.py", path)

    assert (answer.code, answer.out) == (2, "")
    assert "is not below the DAG folder" in answer.err
