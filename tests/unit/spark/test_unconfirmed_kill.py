"""A kill counts once the cluster has confirmed it. Until then it is tried again; afterwards the reason says what may go on."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import anyio
import msgspec
import pytest

from tests.scripted_yarn import ScriptedYarn, scripted_yarn
from tests.unit.spark.test_spool import DEAD, prepared
from tidegate.daemon.settings import Settings
from tidegate.daemon.spark import unconfirmed
from tidegate.daemon.spark.runner import conclusion, kinds, reap, stamped_application, submit
from tidegate.daemon.spark.runner import yarn_rest as rest
from tidegate.daemon.spark.runner.conclusion import conclude
from tidegate.daemon.spark.runner.execution import Execution
from tidegate.daemon.spark.runner.failure_reason import TaskError
from tidegate.daemon.spark.runner.stamped_application import default_of
from tidegate.daemon.spark.runner_backend import RunnerBackend
from tidegate.daemon.spark.spool import Job, Outcome, Spool
from tidegate.schemas.dag import Secret, SubmitTask
from tidegate.schemas.error import UnavailableError

MakeSpool = Callable[..., Spool]
KILLED = Outcome(outcome="killed", reason="killed on request")


@pytest.fixture
def yarn() -> Iterator[ScriptedYarn]:
    with scripted_yarn() as scripted:
        yield scripted


@pytest.fixture
def make(yarn: ScriptedYarn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeSpool:
    """An attempt that waits in a queue of YARN. The clients of Spark, which take seconds, find no cluster."""
    monkeypatch.setattr(rest, "POLL_S", 0.01)
    monkeypatch.setattr(stamped_application, "PAUSE_S", 0.01)
    monkeypatch.setattr(stamped_application, "CLIENT", "no_client")
    monkeypatch.setattr(reap, "PAUSE_S", 0.01)
    monkeypatch.setattr(conclusion, "PATIENCE_S", 0.2)
    monkeypatch.setattr(kinds, "END_S", 0.2)
    monkeypatch.setattr(submit, "EARLIER_S", 0.2)
    monkeypatch.setattr(conclusion, "end_all", lambda *_args, **_options: 0)

    def make(master: str = "yarn", conf: Mapping[str, str | Secret] | None = None) -> Spool:
        spool = prepared(tmp_path)
        job = spool.job()
        assert job is not None
        env = {"HADOOP_CONF_DIR": str(yarn.configure(tmp_path / "hadoop"))}
        task = SubmitTask(task_id="t", application="a.py", env={**env}, conf={**(conf or {})})
        spec = msgspec.structs.replace(job.spec, task=task)
        spool.prepare(msgspec.structs.replace(job, spec=spec, spark_master=master, kafka_security=None))
        yarn.applications[f"application_{spool.submission_id}", f"tidegate-{spool.submission_id}"] = "ACCEPTED"
        return spool

    return make


def job_of(spool: Spool) -> Job:
    job = spool.job()
    assert job is not None
    return job


def states(yarn: ScriptedYarn) -> set[str]:
    return set(yarn.applications.values())


def test_a_kill_ends_an_application_that_waits_in_a_queue_of_yarn(yarn: ScriptedYarn, make: MakeSpool) -> None:
    spool = make()
    spool.ask_to_stop()

    conclude(spool, job_of(spool), KILLED, None)

    assert (states(yarn), spool.outcome() and spool.outcome().outcome) == ({"KILLED"}, "killed")  # type: ignore[union-attr]


def test_a_kill_that_yarn_does_not_confirm_is_no_end_and_the_daemon_says_why(
    yarn: ScriptedYarn, make: MakeSpool, tmp_path: Path
) -> None:
    spool = make()
    spool.ask_to_stop()
    spool.claim(DEAD)
    yarn.state = "INITIALIZING"

    conclude(spool, job_of(spool), KILLED, None)

    assert spool.outcome() is None
    backend = RunnerBackend("spark-submit", Settings(postgres_dsn="", kafka_servers="k:1", spool_dir=str(tmp_path)))
    with pytest.raises(UnavailableError) as away:
        anyio.run(backend.kill, {"spool": str(spool.submission_id), "pid": DEAD.pid})
    assert away.value.server == "a Spark cluster"
    assert "its state is INITIALIZING" in str(away.value)


def test_the_reaper_tries_until_yarn_confirms(yarn: ScriptedYarn, make: MakeSpool) -> None:
    spool = make()
    spool.ask_to_stop()
    spool.claim(DEAD)
    unconfirmed.leave(spool, "its application may go on")
    yarn.answers = [401, 500, 401, "[]"]

    reap.reap(spool, None)

    outcome = spool.outcome()
    assert outcome is not None
    assert (states(yarn), outcome.outcome, outcome.reason) == ({"KILLED"}, "killed", "killed on request")


def test_a_kill_that_is_never_confirmed_is_lost_and_its_reason_says_what_may_go_on(
    yarn: ScriptedYarn, make: MakeSpool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reap, "CONFIRM_WITHIN_S", 0.0)
    spool = make()
    spool.ask_to_stop()
    spool.claim(DEAD)
    yarn.state = "STANDBY"

    reap.reap(spool, None)

    outcome = spool.outcome()
    assert outcome is not None
    assert outcome.outcome == "lost"
    stamp = f"tidegate-{spool.submission_id}"
    assert outcome.reason.startswith(f"its application on YARN may go on ({stamp}): {yarn.address}: its state is")


def test_the_application_of_a_runner_that_crashed_is_ended_with_the_settings_of_its_task(
    yarn: ScriptedYarn, make: MakeSpool, tmp_path: Path
) -> None:
    """In `yarn-site.xml` there is another address."""
    port, yarn.port = yarn.port, 9
    spool = make(conf={"spark.hadoop.yarn.resourcemanager.webapp.address": f"127.0.0.1:{port}"})
    spool.claim(DEAD)

    reap.reap(spool, None)

    outcome = spool.outcome()
    assert outcome is not None
    assert (states(yarn), outcome.outcome) == ({"KILLED"}, "failed")
    assert "may go on" not in outcome.reason


@pytest.mark.parametrize(
    ("exit_code", "is_asked"), [(-9, True), (137, True), (52, True), (None, True), pytest.param(1, False, id="in order")]
)
def test_yarn_is_asked_about_drivers_that_did_not_end_in_order(
    yarn: ScriptedYarn, make: MakeSpool, exit_code: int | None, is_asked: bool
) -> None:
    spool = make()

    conclude(spool, job_of(spool), Outcome(outcome="failed", reason="it failed", exit_code=exit_code), None)

    assert (bool(yarn.requests), states(yarn)) == (is_asked, {"KILLED"} if is_asked else {"ACCEPTED"})


def test_a_failure_says_what_may_go_on(yarn: ScriptedYarn, make: MakeSpool) -> None:
    spool = make()
    yarn.state = "STANDBY"

    conclude(spool, job_of(spool), Outcome(outcome="failed", reason="it was killed by SIGKILL", exit_code=-9), None)

    outcome = spool.outcome()
    assert outcome is not None
    assert outcome.outcome == "failed"
    assert outcome.reason.startswith("it was killed by SIGKILL; its application on YARN may go on (")


def test_a_try_ends_the_applications_of_earlier_ones_or_does_not_begin(
    yarn: ScriptedYarn, make: MakeSpool, tmp_path: Path
) -> None:
    earlier, spool = make(), make()
    task = job_of(spool).spec.task
    assert isinstance(task, SubmitTask)
    (tmp_path / "a.py").touch()
    spec = msgspec.structs.replace(job_of(spool).spec, earlier=(earlier.submission_id,))
    job = msgspec.structs.replace(job_of(spool), spec=spec, dags_folder=str(tmp_path))
    yarn.state = "STANDBY"

    with pytest.raises(TaskError, match=r"^an earlier try has not ended: its application on YARN may go on"):
        submit.run(Execution.of(job, spool), task)

    yarn.state = "ACTIVE"
    assert submit._end(Execution.of(job, spool), spec.earlier, {}, dict(task.env), 5.0) == ""  # type: ignore[arg-type]
    assert sorted(yarn.applications.values()) == ["ACCEPTED", "KILLED"], "its own has not begun"


@pytest.mark.parametrize(("master", "left"), [("yarn", "its application may go on: secret 'gone': "), ("local[2]", "")])
def test_a_secret_that_is_gone_is_the_reason_where_it_is_needed(master: str, left: str, make: MakeSpool) -> None:
    spool = make(master, conf={"spark.x": Secret("gone")})

    found = kinds.end(job_of(spool), spool, 0.1)

    assert found[: len(left) or None] == left


@pytest.mark.parametrize(
    ("master", "tags", "stamps"),
    [
        ("yarn", "", {"spark.yarn.tags": "tidegate-{id}"}),
        ("yarn", "mine,ours", {"spark.yarn.tags": "mine,ours,tidegate-{id}"}),
        ("k8s://https://k:6443", "", {"spark.app.id": "tidegate-{id}"}),
        ("spark://m:7077", "", {}),
        ("local[2]", "", {}),
    ],
)
def test_an_application_has_the_stamp_of_its_cluster(master: str, tags: str, stamps: Mapping[str, str], make: MakeSpool) -> None:
    spool = make(master)
    chosen = {"spark.yarn.tags": tags} if tags else {}

    found = submit.settings(job_of(spool), chosen, {})

    expected = {name: text.format(id=spool.submission_id) for name, text in stamps.items()}
    assert {name: found[name] for name in ("spark.yarn.tags", "spark.app.id") if name in found} == expected


@pytest.mark.parametrize(
    ("master", "name"),
    [
        ("local[2]", "spark-submit"),
        ("spark://m:7077", "spark-submit on spark://m:7077"),
        ("yarn", "spark-submit on yarn at {yarn}"),
    ],
)
def test_a_reason_names_the_cluster_of_an_application(master: str, name: str, yarn: ScriptedYarn, make: MakeSpool) -> None:
    job = job_of(make(master))
    assert isinstance(job.spec.task, SubmitTask)

    assert submit._named(job, {"HADOOP_CONF_DIR": str(job.spec.task.env["HADOOP_CONF_DIR"])}, {}) == name.format(
        yarn=yarn.address
    )


@pytest.mark.parametrize(
    ("line", "tags"), [("spark.yarn.tags a,b", "a,b"), ("  spark.yarn.tags = a ", "a"), ("# spark.yarn.tags a", ""), ("", "")]
)
def test_the_tags_of_the_operator_are_kept(line: str, tags: str, tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text(f"spark.ui.enabled false\n{line}\n")

    assert default_of("spark.yarn.tags", tmp_path) == tags
