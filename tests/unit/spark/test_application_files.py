"""What spark-submit is told to distribute, and the entries that are refused before Spark starts."""

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID
from zipfile import ZipFile

import msgspec
import pytest

from tidegate.daemon.spark.contract import SubmissionSpec
from tidegate.daemon.spark.runner.application_files import options
from tidegate.daemon.spark.runner.failure_reason import TaskError
from tidegate.daemon.spark.spool import Job
from tidegate.schemas.dag import SubmitTask
from tidegate.schemas.run import RunContext

Entries = tuple[str, ...]


@pytest.fixture
def dags(tmp_path: Path) -> Path:
    folder = tmp_path / "dags"
    (folder / "lib").mkdir(parents=True)
    (folder / "lib" / "clean.py").write_text("")
    (folder / "factor.txt").write_text("1")
    (tmp_path / "outside.txt").write_text("")
    return folder


def asked(dags: Path, **entries: Entries) -> list[str]:
    task = msgspec.convert({"kind": "submit", "task_id": "load", "application": "load.py", **entries}, SubmitTask)
    run = RunContext(dag_id="d", run_id="r", run_type="manual", run_after=datetime(2024, 1, 1, tzinfo=UTC), params={"v": "1.2"})
    spec = SubmissionSpec(submission_id=UUID(int=1), try_number=1, task=task, run=run, dag_path="d.py", source="")
    job = Job(
        spec=spec, dags_folder=str(dags), spark_remote="", spark_master="local", kafka_servers="", topic_prefix="", heartbeat_s=1
    )
    return options(job, task, dags.parent)


def test_nothing_is_distributed_unless_it_is_asked_for(dags: Path) -> None:
    assert asked(dags) == []


def test_each_list_is_an_option_with_its_templates_rendered(dags: Path) -> None:
    found = asked(
        dags,
        py_files=("lib/clean.py", "s3a://libs/common-{{ params.v }}.zip"),
        files=("factor.txt",),
        jars=("hdfs://name:9000/udf.jar",),
        packages=("org.example:udf_2.13:{{ params.v }}", "org.example:more:2"),
    )

    assert found == [
        *("--py-files", f"{dags}/lib/clean.py,s3a://libs/common-1.2.zip"),
        *("--files", f"{dags}/factor.txt"),
        *("--jars", "hdfs://name:9000/udf.jar"),
        *("--packages", "org.example:udf_2.13:1.2,org.example:more:2"),
    ]


def test_a_folder_of_python_is_packed_under_its_own_name(dags: Path) -> None:
    option, archive = asked(dags, py_files=("lib",))

    assert option == "--py-files"
    assert sorted(ZipFile(archive).namelist()) == ["lib/", "lib/clean.py"]


def test_files_of_an_image_without_times_are_packed(dags: Path) -> None:
    """Zip archives have no times before 1980."""
    os.utime(dags / "lib" / "clean.py", (0, 0))
    os.utime(dags / "lib", (0, 0))

    _, archive = asked(dags, py_files=("lib",))

    assert "lib/clean.py" in ZipFile(archive).namelist()


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        ({"py_files": ("gone.py",)}, "py_files 'gone.py' does not exist in the DAG folder {dags}"),
        ({"files": ("../outside.txt",)}, "files '../outside.txt' is not below the DAG folder {dags}"),
        ({"files": ("lib",)}, "files 'lib' does not exist in the DAG folder {dags}"),
        ({"jars": ("file:///etc/passwd",)}, "jars 'file:///etc/passwd' does not exist in the DAG folder {dags}"),
        ({"files": ("a,b",)}, "files 'a,b' contains a comma, which separates the entries of spark-submit: write a list"),
        ({"packages": ("udf",)}, "packages 'udf': a package is named by Maven coordinates, group:artifact:version"),
        ({"jars": ("{{ gone }}",)}, "entry 1 of jars of task 'load' cannot be rendered: there is no 'gone'"),
    ],
)
def test_an_entry_that_spark_would_not_find_is_refused(dags: Path, entries: Mapping[str, Entries], problem: str) -> None:
    with pytest.raises(TaskError) as refused:
        asked(dags, **entries)

    assert str(refused.value).startswith(problem.format(dags=dags))
