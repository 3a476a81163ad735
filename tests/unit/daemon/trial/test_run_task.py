"""One task of a run, with what the run has."""

import sys
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID
from zipfile import ZipFile

import msgspec
import pytest

from tidegate.daemon.lint.tasks import mistakes_of
from tidegate.daemon.settings import Settings
from tidegate.daemon.spark.contract import SubmissionSpec
from tidegate.daemon.spark.runner import session
from tidegate.daemon.trial.run_task import run_task
from tidegate.schemas.dag import CommandTask, FunctionTask, ModuleSource, SqlTask, SubmitTask, TaskSpec
from tidegate.schemas.error import RequestError
from tidegate.schemas.run import RunContext

RUN = RunContext(dag_id="d", run_id="r", run_type="manual", run_after=datetime(2013, 1, 1, tzinfo=UTC), params={}, try_number=1)


EMPTY = "from tidegate import Dag\nDag('d')\n"


def submission(task: TaskSpec, *modules: ModuleSource, source: str = EMPTY) -> SubmissionSpec:
    return SubmissionSpec(
        submission_id=UUID(int=1), try_number=1, task=task, run=RUN, dag_path="d.py", source=source, modules=modules
    )


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(postgres_dsn="", kafka_servers="", dags_folder=str(tmp_path))


@pytest.mark.parametrize(
    ("modules", "reason"),
    [
        ((ModuleSource("gone.py", "digest", ""),), "argument 1 of task 't' cannot be rendered: there is no 'x'"),
        ((ModuleSource("beside/gone.py", "digest", ""),), "application './gone.py' does not exist in the DAG folder"),
        ((), "application './gone.py' does not exist in the DAG folder"),
    ],
)
def test_an_application_is_that_of_the_version(modules: tuple[ModuleSource, ...], reason: str, settings: Settings) -> None:
    task = SubmitTask(task_id="t", application="./gone.py", application_digest="digest", args=("{{ x }}",))

    outcome = run_task(settings, submission(task, *modules))

    assert outcome.outcome == "failed"
    assert outcome.reason.startswith(reason)


def test_an_argument_has_the_number_that_a_check_gives_it(settings: Settings) -> None:
    task = CommandTask(task_id="t", argv=("echo", "{{ x }}"))

    assert run_task(settings, submission(task)).reason.startswith("argument 2 of the command of task 't' cannot be rendered: ")
    assert [found.reason.partition(":")[0] for found in mistakes_of(task, Path())] == ["argument 2 cannot be rendered"]


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (EMPTY, "d.py builds no DAG 'd' with a task 't' on this host"),
        ("import sys\nsys.exit(0)\n", "d.py called sys.exit(0) on this host; a DAG file only builds DAGs"),
        ("\nraise ValueError('no tables')\n", "ValueError: no tables (d.py, line 2)"),
    ],
)
def test_a_file_that_does_not_build_the_function_fails_the_task(
    source: str, reason: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))

    outcome = run_task(settings, submission(FunctionTask(task_id="t"), source=source))

    assert (outcome.outcome, outcome.reason) == ("failed", reason)


def test_a_function_of_an_archive_runs_with_its_modules_as_they_were(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    with ZipFile(Path(settings.dags_folder, "team.zip"), "w") as archive:
        archive.writestr("inner/part_of_archive.py", "def fail(): raise ValueError('newer')")
    parts = ModuleSource("team.zip/inner/part_of_archive.py", "", "\ndef fail(): raise ValueError('as it was')")
    source = f"{EMPTY}@_.task()\ndef t(spark, run):\n    from inner.part_of_archive import fail\n    fail()\n".replace(
        "Dag('d')", "_ = Dag('d')"
    )
    spec = msgspec.structs.replace(submission(FunctionTask(task_id="t"), parts, source=source), dag_path="team.zip/d.py")

    outcome = run_task(settings, spec)

    assert (outcome.outcome, outcome.reason) == ("failed", "ValueError: as it was (team.zip/inner/part_of_archive.py, line 2)")


@pytest.mark.parametrize(("cluster", "port"), [("", 1), ("nightly", 2)])
def test_a_statement_runs_where_its_run_did(cluster: str, port: int, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "PATIENCE_S", 0.01)
    clusters = '{"nightly": {"remote": "sc://127.0.0.1:2"}}'
    settings = msgspec.structs.replace(settings, spark_remote="sc://127.0.0.1:1", spark_clusters=clusters)

    outcome = run_task(settings, submission(SqlTask(task_id="t", sql="SELECT 1", cluster=cluster)))

    assert outcome.reason.startswith(f"Spark Connect does not answer at sc://127.0.0.1:{port}: ")


@pytest.mark.parametrize(
    ("folder", "task", "reason"),
    [
        ("", SqlTask(task_id="t", sql="", cluster="other"), "cluster 'other' is not in TIDEGATE_SPARK_CLUSTERS"),
        ("gone", SqlTask(task_id="t", sql=""), "the DAG folder .*/gone does not exist; set TIDEGATE_DAGS_FOLDER"),
    ],
)
def test_what_this_host_lacks_is_told(folder: str, task: TaskSpec, reason: str, settings: Settings) -> None:
    settings = msgspec.structs.replace(settings, dags_folder=str(Path(settings.dags_folder, folder)))

    with pytest.raises(RequestError, match=reason):
        run_task(settings, submission(task))
