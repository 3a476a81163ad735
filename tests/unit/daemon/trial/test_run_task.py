"""One task of a run, with what the run has."""

from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest

from tidegate.daemon.settings import Settings
from tidegate.daemon.spark.contract import SubmissionSpec
from tidegate.daemon.trial.run_task import run_task
from tidegate.schemas.dag import FunctionTask, ModuleSource, SubmitTask, TaskSpec
from tidegate.schemas.error import RequestError
from tidegate.schemas.run import RunContext

RUN = RunContext(dag_id="d", run_id="r", run_type="manual", run_after=datetime(2013, 1, 1, tzinfo=UTC), params={}, try_number=1)


def submission(task: TaskSpec, *modules: ModuleSource) -> SubmissionSpec:
    source = "from tidegate import Dag\nDag('d')\n"
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
        ((), "application 'gone.py' does not exist in the DAG folder"),
    ],
)
def test_an_application_is_that_of_the_version(modules: tuple[ModuleSource, ...], reason: str, settings: Settings) -> None:
    task = SubmitTask(task_id="t", application="gone.py", application_digest="digest", args=("{{ x }}",))

    outcome = run_task(settings, submission(task, *modules))

    assert outcome.outcome == "failed"
    assert outcome.reason.startswith(reason)


def test_a_function_that_the_file_does_not_build_is_named(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(settings.dags_folder)

    with pytest.raises(RequestError, match=r"d.py builds no DAG 'd' with a task 't' on this host"):
        run_task(settings, submission(FunctionTask(task_id="t")))
