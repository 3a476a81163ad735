"""Timeouts: late runs fail and queued ones start; late attempts are killed."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest

from tests.shapes import NOW, dag_view, graph, message, queued, run_view, task
from tests.unit.handlers.simulated_run import SimulatedRun, started
from tests.unit.handlers.well_formed import well_formed
from tidegate.handlers import attempt_timed_out, run_timed_out, submission_accepted
from tidegate.handlers.load import LockedAttempts
from tidegate.handlers.runs.create import create, promote
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.dag import CountFailures, SetPaused
from tidegate.schemas.effect.run import InsertRun, RunMoved, UpdateRun
from tidegate.schemas.effect.submission import AcceptSubmission, KillSubmissions
from tidegate.schemas.message import AttemptTimedOut, RunTimedOut, SubmissionAccepted
from tidegate.schemas.state import KillCause, RunState, SubmissionState, TaskState
from tidegate.schemas.view import DagView
from tidegate.schemas.wire.event import TaskFinished

SHORT: Mapping[str, Any] = {"run_timeout_s": 90.0, "limit": 1}


def timed_out(world: SimulatedRun, *dags: DagView) -> list[Effect]:
    id_ = world.run.id
    found = world.whole()
    state = run_timed_out.State(NOW, dags, (world.run,), found.graphs, found.tasks)
    return well_formed(run_timed_out.decide([message(RunTimedOut(dag_run_id=id_))], state))


@pytest.mark.parametrize(("timeout_s", "limit"), [(None, None), (90.0, NOW + timedelta(seconds=90))])
def test_the_timeout_of_a_run_counts_from_its_start(timeout_s: float | None, limit: object) -> None:
    dag = graph("a", run_timeout_s=timeout_s)
    queued_first, at_once = run_view(1), run_view(2)

    effects = [*promote(queued_first, dag, NOW), *create(at_once, {}, dag, NOW, started=True)]

    assert [effect.times_out_at for effect in effects if isinstance(effect, InsertRun | UpdateRun)] == [limit, limit]


def test_a_queued_run_does_not_time_out() -> None:
    effects = create(run_view(), {}, graph("a", run_timeout_s=90.0), NOW, started=False)

    assert [effect.times_out_at for effect in effects if isinstance(effect, InsertRun)] == [None]


@pytest.mark.parametrize(("seconds", "late"), [(89.9, False), (90, True), (91, True)])
def test_a_run_is_late_from_its_timeout_on(seconds: float, late: bool) -> None:
    world = SimulatedRun(graph("a", **SHORT))

    assert world.run.is_late(NOW + timedelta(seconds=seconds)) is late


def test_a_run_without_a_timeout_is_never_late() -> None:
    assert not SimulatedRun(graph("a")).run.is_late(NOW + timedelta(days=9999))


def test_a_late_run_fails_skips_unfinished_tasks_and_kills_active_ones() -> None:
    world = SimulatedRun(graph("done", "works", "waits", "later < works", **SHORT))
    world.admit("done", "works")
    world.finish(done=True)
    world.accept("works")

    world.apply(timed_out(world))

    assert world.states() == {
        "done": TaskState.SUCCESS,
        "works": TaskState.SKIPPED,
        "waits": TaskState.SKIPPED,
        "later": TaskState.SKIPPED,
    }
    assert (world.run.state, world.journal[-1].reason) == (RunState.FAILED, "the run took longer than its dagrun_timeout, 90 s")
    assert world.others == [KillSubmissions(1, None, "the run took longer than its dagrun_timeout, 90 s")]
    world.check_run()


def test_the_next_run_starts_as_the_late_one_ends() -> None:
    """R14"""
    world = SimulatedRun(graph("a", **SHORT))

    effects = timed_out(world, dag_view(world.graph, running=1, queued=1, queued_runs=queued(world.graph, 8)))

    assert [(e.dag_run_id, e.event.state) for e in effects if isinstance(e, RunMoved)] == [(1, "failed"), (8, "running")]
    assert started(effects) == [8]


def test_a_late_run_of_a_backfill_is_no_failure_of_its_dag() -> None:
    dag = graph("a", max_failed_runs=1, **SHORT)
    world = SimulatedRun(dag)
    world.run = msgspec.structs.replace(world.run, backfill_id=7)

    effects = timed_out(world, dag_view(dag, running=1, queued=1, queued_runs=queued(dag, 8)))

    assert [(e.dag_run_id, e.event.state) for e in effects if isinstance(e, RunMoved)] == [(1, "failed")]
    assert [e for e in effects if isinstance(e, CountFailures | SetPaused)] == []


def test_a_late_run_counts_as_a_failure_of_its_dag() -> None:
    dag = graph("a", max_failed_runs=3, **SHORT)

    effects = timed_out(SimulatedRun(dag), dag_view(dag, running=1, failed_runs=2))

    assert [e for e in effects if isinstance(e, CountFailures | SetPaused)] == [
        CountFailures("d", 3),
        SetPaused("d", is_paused=True),
    ]


def test_a_task_that_is_killed_with_its_run_is_not_retried() -> None:
    world = SimulatedRun(graph("a*3", **SHORT))
    world.admit("a")
    attempt = world.attempt("a")
    world.apply(timed_out(world))

    world.finish_with(TaskFinished(submission_id=attempt, outcome="killed"))

    assert world.states() == {"a": TaskState.SKIPPED}
    assert world.submissions[attempt].state is SubmissionState.KILLED


def at_work(timeout_s: float | None = 30.0) -> tuple[SimulatedRun, UUID]:
    world = SimulatedRun(graph(task("a*1", execution_timeout_s=timeout_s)))
    world.admit("a")
    attempt = world.attempt("a")
    return world, attempt


@pytest.mark.parametrize(("timeout_s", "limit"), [(None, None), (30.0, NOW + timedelta(seconds=30))])
def test_the_timeout_of_an_attempt_counts_from_its_acceptance(timeout_s: float | None, limit: object) -> None:
    world, attempt = at_work(timeout_s)
    world.submissions[attempt] = msgspec.structs.replace(world.submissions[attempt], state=SubmissionState.SUBMITTING)
    found = world.found(world.tasks)

    effects = submission_accepted.decide(
        [message(SubmissionAccepted(submission_id=attempt, handle={}))],
        LockedAttempts(NOW, found.runs, found.graphs, found.submissions, found.tasks),
    )

    assert [effect.times_out_at for effect in effects if isinstance(effect, AcceptSubmission)] == [limit]


def late(world: SimulatedRun, attempt: UUID, **facts: object) -> list[Effect]:
    found = world.found(world.tasks)
    submissions = {attempt: msgspec.structs.replace(world.submissions[attempt], **facts)}
    state = LockedAttempts(NOW, found.runs, found.graphs, submissions, found.tasks)
    return well_formed(attempt_timed_out.decide([message(AttemptTimedOut(submission_id=attempt))], state))


@pytest.mark.parametrize(("timeout_s", "said"), [(30.0, ", 30 s"), (None, "")])
def test_an_attempt_past_its_timeout_is_killed(timeout_s: float | None, said: str) -> None:
    """Also without a timeout in the version that its run has now."""
    world, attempt = at_work(timeout_s)
    world.accept("a")

    assert late(world, attempt) == [
        KillSubmissions(1, 0, f"it took longer than its execution_timeout{said}", KillCause.TIMED_OUT)
    ]


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param({"state": SubmissionState.SUCCEEDED}, id="it has ended"),
        pytest.param({"state": SubmissionState.ACCEPTED, "kill_reason": "by hand"}, id="it is being killed"),
    ],
)
def test_an_attempt_that_has_ended_or_is_being_killed_is_not_killed(facts: dict[str, object]) -> None:
    world, attempt = at_work()

    assert late(world, attempt, **facts) == []


TIMED_OUT = {"kill_reason": "it took longer than its execution_timeout, 30 s", "kill_cause": KillCause.TIMED_OUT}


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        ("killed", "it took longer than its execution_timeout, 30 s"),
        ("lost", "it took longer than its execution_timeout, 30 s; disk full"),
        ("failed", "disk full"),
        ("succeeded", "disk full"),
    ],
)
def test_a_killed_task_has_the_kill_reason(outcome: str, reason: str) -> None:
    world, attempt = at_work()
    world.submissions[attempt] = msgspec.structs.replace(world.submissions[attempt], **TIMED_OUT)

    finished = {"submission_id": attempt, "outcome": outcome, "reason": "disk full"}
    world.finish_with(msgspec.convert(finished, TaskFinished))

    assert world.published[-1].reason == reason


def test_a_task_that_was_killed_at_its_timeout_is_retried() -> None:
    world, attempt = at_work()
    world.accept("a")

    world.finish_with(TaskFinished(submission_id=attempt, outcome="killed"))

    assert world.states() == {"a": TaskState.UP_FOR_RETRY}
