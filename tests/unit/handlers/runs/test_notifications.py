"""Notifications of runs and tasks: once per receiver and event."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Literal

import msgspec
import pytest

from tests.shapes import NOW, dag_view, graph, message, run_view, task
from tests.unit.handlers.callbacks import one_callback_per_occasion
from tests.unit.handlers.simulated_run import End, SimulatedRun
from tests.unit.handlers.well_formed import well_formed
from tidegate.handlers import attempt_timed_out, run_end_requested, run_timed_out
from tidegate.handlers.load import LockedAttempts, WholeRun
from tidegate.handlers.runs.notifications import notify_late_inputs
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.deadline import Notify
from tidegate.schemas.effect.submission import KillSubmissions
from tidegate.schemas.message import AttemptTimedOut, RunEndRequested, RunTimedOut
from tidegate.schemas.notice import MissedDeadline
from tidegate.schemas.receiver import Callback, EmailReceiver, FunctionReceiver, On, Receiver, WebhookReceiver
from tidegate.schemas.state import RunState, TaskState
from tidegate.schemas.view import Instance
from tidegate.schemas.wire.event import TaskFinished

MAIL, HOOK, TELL = EmailReceiver(("ops@example.org",)), WebhookReceiver("https://example.org/hook"), FunctionReceiver("tell")


def all_to(receiver: Receiver) -> tuple[Callback, ...]:
    return tuple(Callback(on, receiver) for on in On)


def told(effects: Iterable[Effect]) -> list[tuple[str, int, str, str]]:
    """What it is about, the number of the event, the occasion, and the receiver."""
    return [(e.about, e.seq, str(e.context.on), _name(e.receiver)) for e in effects if isinstance(e, Notify)]


def _name(receiver: Receiver) -> str:
    return receiver.name if isinstance(receiver, FunctionReceiver) else type(receiver).__name__


@pytest.mark.parametrize(
    ("end", "expected"), [(True, [("run", 3, "success", "success")]), (False, [("run", 3, "failure", "failure")])]
)
def test_the_end_of_a_run_is_notified_with_the_number_of_its_event(end: bool, expected: list[tuple[str, int, str, str]]) -> None:
    world = SimulatedRun(graph("a", callbacks=one_callback_per_occasion()))

    world.admit("a")
    world.finish(a=end)

    assert told(world.others) == expected
    assert world.journal[-1].seq == 3


def test_a_run_that_ends_at_its_start_is_notified() -> None:
    world = SimulatedRun(graph("a!", callbacks=one_callback_per_occasion()))

    assert told(world.others) == [("run", 3, "success", "success")]


def test_a_deadlock_is_a_failure() -> None:
    """R21: it is notified with the reason."""
    world = SimulatedRun(graph("a", "b < a", callbacks=all_to(MAIL)))
    world.tasks[0].state = TaskState.SUCCESS
    world.tasks[1].elements = world.tasks[1].awaited = 2  # which are nowhere

    world.reconsider()

    (notice,) = [effect for effect in world.others if isinstance(effect, Notify)]
    assert (notice.context.on, notice.context.reason) == (On.FAILURE, world.journal[-1].reason)


@pytest.mark.parametrize(
    ("state", "occasion"), [(RunState.FAILED, "failure"), (RunState.SUCCESS, "success")], ids=["ended", "marked"]
)
def test_a_run_that_a_user_ended_is_notified_too(state: RunState, occasion: str) -> None:
    dag = graph("a", callbacks=one_callback_per_occasion())
    run = run_view(state=RunState.RUNNING, state_seq=2)
    asked = RunEndRequested(dag_id="d", run_id=run.run_id, state=state, reason="enough")

    found = WholeRun(NOW, dag_view(dag, running=1), run, dag, (Instance(0, TaskState.SCHEDULED),))
    effects = run_end_requested.decide([message(asked)], found)

    assert told(effects) == [("run", 3, occasion, occasion)]


def timed_out(callbacks: tuple[Callback, ...]) -> list[Effect]:
    dag = graph("a", run_timeout_s=60.0, callbacks=callbacks)
    run = run_view(state=RunState.RUNNING, state_seq=2, times_out_at=NOW)
    state = run_timed_out.State(NOW, (), [run], {1: dag}, {1: {0: Instance(0, TaskState.SCHEDULED)}})
    return well_formed(run_timed_out.decide([message(RunTimedOut(dag_run_id=1))], state))


def test_a_run_past_its_timeout_is_a_timeout_and_a_failure() -> None:
    assert told(timed_out(one_callback_per_occasion())) == [("run", 3, "timeout", "timeout"), ("run", 3, "failure", "failure")]


def test_a_receiver_of_timeout_and_failure_is_notified_once() -> None:
    assert told(timed_out(all_to(TELL))) == [("run", 3, "timeout", "tell")]


def finishing(ends: Iterable[End], *, retries: int = 0, callbacks: tuple[Callback, ...] = (), **facts: Any) -> SimulatedRun:
    """A run of one task whose attempts have these ends, one after the other."""
    world = SimulatedRun(graph(task(f"a*{retries}", callbacks=callbacks, retry_delay_s=0.0, **facts)))
    for end in ends:
        world.admit("a")
        world.finish(a=end)
    return world


@pytest.mark.parametrize(
    ("ends", "retries", "expected"),
    [
        pytest.param([True], 0, ["success"], id="it succeeded"),
        pytest.param([False], 0, ["failure"], id="it failed"),
        pytest.param([False, True], 1, ["retry", "success"], id="it succeeded the second time"),
        pytest.param([False, False], 1, ["retry", "failure"], id="it failed two times"),
        pytest.param([TaskState.SKIPPED], 0, [], id="it was skipped"),
    ],
)
def test_the_end_of_a_task_is_notified(ends: list[End], retries: int, expected: list[str]) -> None:
    world = finishing(ends, retries=retries, callbacks=one_callback_per_occasion())

    assert [occasion for _, _, occasion, _ in told(world.others)] == expected


def test_a_task_is_notified_with_the_number_and_fields_of_its_event() -> None:
    world = finishing([False], retries=1, callbacks=(Callback(On.RETRY, HOOK),))

    (notice,) = [effect for effect in world.others if isinstance(effect, Notify)]
    (event,) = [event for event in world.published if event.state == TaskState.UP_FOR_RETRY]
    context = notice.context
    assert (notice.about, notice.seq, notice.kind) == ("task", event.seq, "webhook")
    assert (notice.dag_run_id, notice.version_id) == (1, None)
    assert (context.task_id, context.try_number, context.state, context.at) == ("a", 1, "up_for_retry", NOW)
    assert (context.dag_id, context.run_id, context.run_type, context.run_after) == ("d", "r1", "manual", NOW)


def test_an_upstream_failure_is_not_notified_as_a_failure() -> None:
    world = SimulatedRun(graph("a", task("b < a", callbacks=all_to(MAIL))))

    world.admit("a")
    world.finish(a=False)

    assert world.states()["b"] is TaskState.UPSTREAM_FAILED
    assert told(world.others) == []


@pytest.mark.parametrize(
    ("retries", "expected"),
    [(0, ["timeout", "failure"]), (1, ["timeout", "retry"])],
    ids=["for good", "with another try to come"],
)
@pytest.mark.parametrize("outcome", ["killed", "lost"])
def test_an_attempt_past_its_timeout_is_notified_as_timeout_too(
    outcome: Literal["killed", "lost"], retries: int, expected: list[str]
) -> None:
    """A timeout is known by the cause of its kill."""
    dag = graph(task(f"a*{retries}", callbacks=one_callback_per_occasion(), execution_timeout_s=90.0))
    world = SimulatedRun(dag)
    world.admit("a")
    world.accept("a")
    (id_,) = world.submissions
    found = LockedAttempts(NOW, {1: world.run}, {1: dag}, world.submissions, {})

    (kill,) = attempt_timed_out.decide([message(AttemptTimedOut(submission_id=id_))], found)
    assert isinstance(kill, KillSubmissions)
    world.submissions[id_] = msgspec.structs.replace(world.submissions[id_], kill_reason=kill.reason, kill_cause=kill.cause)
    world.finish_with(TaskFinished(submission_id=id_, outcome=outcome, reason="killed on request"))

    assert kill.reason == "it took longer than its execution_timeout, 90 s"
    assert [occasion for _, _, occasion, _ in told(world.others)] == expected


def test_a_failure_in_the_words_of_a_timeout_is_none() -> None:
    dag = graph(task("a", callbacks=one_callback_per_occasion(), execution_timeout_s=90.0))
    world = SimulatedRun(dag)
    world.admit("a")
    world.accept("a")
    (id_,) = world.submissions

    world.finish_with(TaskFinished(submission_id=id_, outcome="failed", reason="it took longer than its execution_timeout, 90 s"))

    assert [occasion for _, _, occasion, _ in told(world.others)] == ["failure"]


def test_late_inputs_are_notified_about_the_version_of_the_dag() -> None:
    dag = graph("a", version_id=3, callbacks=(Callback(On.DEADLINE, TELL),))
    due = NOW - timedelta(minutes=1)

    (notice,) = notify_late_inputs(dag, due, NOW, "no event of s://a")

    assert (notice.about, notice.seq, notice.dag_run_id, notice.version_id) == ("dag", 0, None, 3)
    context = notice.context
    assert (context.dag_id, context.run_id, context.state) == ("d", None, None)
    assert (context.deadline, context.at, context.reason) == (MissedDeadline(name="inputs", due_at=due), NOW, "no event of s://a")


def test_each_receiver_of_an_event_is_notified_once() -> None:
    callbacks = (Callback(On.SUCCESS, MAIL), Callback(On.SUCCESS, HOOK), Callback(On.SUCCESS, TELL), Callback(On.SUCCESS, MAIL))

    world = finishing([True], callbacks=callbacks)

    assert [receiver for *_, receiver in told(world.others)] == ["EmailReceiver", "WebhookReceiver", "tell"]


def test_the_receiver_id_depends_on_the_receiver_only() -> None:
    callbacks = (*all_to(MAIL), Callback(On.SUCCESS, EmailReceiver(("ops@example.org",), subject="x")))

    world = finishing([False, True], retries=1, callbacks=callbacks)

    retried, succeeded, other = [effect.receiver_id for effect in world.others if isinstance(effect, Notify)]
    assert retried == succeeded != other


def test_callbacks_of_tasks_and_runs_are_independent() -> None:
    dag = graph(task("a", callbacks=(Callback(On.SUCCESS, MAIL),)), "b", callbacks=(Callback(On.SUCCESS, MAIL),))
    world = SimulatedRun(dag)

    world.admit("a", "b")
    world.finish(a=True, b=True)

    assert [(about, occasion) for about, _, occasion, _ in told(world.others)] == [("task", "success"), ("run", "success")]


def test_a_cleared_run_is_notified_again_when_it_ends_again() -> None:
    """Every event has a number of its own, so that no notification is taken for a repetition."""
    dag = graph("a", callbacks=all_to(MAIL))
    first = SimulatedRun(dag)
    first.admit("a")
    first.finish(a=True)
    again = SimulatedRun(dag, waits=True, state_seq=4)
    again.admit("a")
    again.finish(a=True)

    assert [seq for _, seq, _, _ in told([*first.others, *again.others])] == [3, 6]


def test_a_notification_has_the_time_of_its_event() -> None:
    dag = graph("a!", callbacks=all_to(MAIL))
    world = SimulatedRun(dag, logical_date=NOW - timedelta(days=1))

    (notice,) = [effect for effect in world.others if isinstance(effect, Notify)]

    context = notice.context
    assert (context.at, context.state, context.logical_date) == (NOW, "success", NOW - timedelta(days=1))
