"""The secrets of a task, from files of the host."""

from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest

from tidegate.daemon.spark.contract import SubmissionSpec
from tidegate.daemon.spark.runner.failure_reason import TaskError
from tidegate.daemon.spark.runner.secrets import MAX_BYTES, read_all
from tidegate.daemon.spark.spool import Job
from tidegate.schemas.dag import CommandTask, Secret
from tidegate.schemas.run import RunContext


def job(*folders: Path) -> Job:
    task = CommandTask(task_id="load", argv=("true",), env={"KEY": Secret("key")})
    run = RunContext(dag_id="d", run_id="r", run_type="manual", run_after=datetime(2024, 1, 1, tzinfo=UTC), params={})
    spec = SubmissionSpec(submission_id=UUID(int=1), try_number=1, task=task, run=run, dag_path="d.py", source="")
    return Job(
        spec=spec,
        dags_folder="",
        spark_remote="",
        spark_master="local",
        kafka_servers="",
        topic_prefix="",
        secrets_dirs=tuple(map(str, folders)),
        heartbeat_s=1,
        host="vm",
    )


def test_the_first_folder_with_the_file_counts_and_its_last_line_break_does_not(tmp_path: Path) -> None:
    first, second, third = (tmp_path / name for name in ("first", "second", "third"))
    for folder in (second, third):
        folder.mkdir()
        (folder / "key").write_text(f"of the {folder.name}\n")

    assert read_all(job(first, second, third)) == {"key": "of the second"}


@pytest.mark.parametrize(
    ("content", "problem"),
    [(b"\xff", "is not UTF-8 text"), (b"x" * (MAX_BYTES + 1), "has more than 65536 bytes, or a NUL"), (b"a\0", "or a NUL")],
)
def test_a_file_that_is_no_secret_is_named(tmp_path: Path, content: bytes, problem: str) -> None:
    (tmp_path / "key").write_bytes(content)

    with pytest.raises(TaskError, match=problem):
        read_all(job(tmp_path))


def test_a_folder_that_cannot_be_searched_is_named() -> None:
    folder = Path("/", "x" * 300)

    with pytest.raises(TaskError) as refused:
        read_all(job(folder))

    assert str(refused.value) == f"secret 'key': {folder}/key cannot be read: File name too long"
