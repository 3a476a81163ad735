"""Who is told of what becomes of runs and tasks: each receiver once per event, and nobody of anything else."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest

from tests.shapes import NOW, dag_view, graph, message, run_view, task
from tests.unit.handlers.telling import each_to_its_own
from tests.unit.handlers.world import End, World
from tidegate.handlers import attempt_timed_out, run_end_requested, run_timed_out
from tidegate.handlers.load_run import WholeRun
from tidegate.handlers.runs.notifications import timeout_reason
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.deadline import Notify
from tidegate.schemas.effect.submission import KillSubmissions
from tidegate.schemas.message import AttemptTimedOut, RunEndRequested, RunTimedOut
from tidegate.schemas.receiver import Callback, EmailReceiver, FunctionReceiver, On, Receiver, WebhookReceiver
from tidegate.schemas.state import RunState, SubmissionState, TaskState
from tidegate.schemas.view import Instance, SubmissionView
from tidegate.schemas.wire.event import TaskFinished

MAIL, HOOK, TELL = EmailReceiver(("ops@example.org",)), WebhookReceiver("https://example.org/hook"), FunctionReceiver("tell")


def all_to(receiver: Receiver) -> tuple[Callback, ...]:
    return tuple(Callback(on, receiver) for on in On)


def told(effects: Iterable[Effect]) -> list[tuple[str, int, str, str]]:
    """Of what, with which number, on which occasion, to whom."""
    return [(e.about, e.seq, str(e.context.on), _name(e.receiver)) for e in effects if isinstance(e, Notify)]


def _name(receiver: Receiver) -> str:
    return receiver.name if isinstance(receiver, FunctionReceiver) else type(receiver).__name__


@pytest.mark.parametrize(
    ("end", "expected"), [(True, [("run", 3, "success", "success")]), (False, [("run", 3, "failure", "failure")])]
)
def test_the_end_of_a_run_is_told_with_the_number_of_its_event(end: bool, expected: list[tuple[str, int, str, str]]) -> None:
    world = World(graph("a", callbacks=each_to_its_own()))

    world.admit("a")
    world.finish(a=end)

    assert told(world.others) == expected
    assert world.journal[-1].seq == 3


def test_a_run_that_ends_as_soon_as_it_starts_tells() -> None:
    world = World(graph("a!", callbacks=each_to_its_own()))

    assert told(world.others) == [("run", 3, "success", "success")]


def test_a_deadlock_is_a_failure() -> None:
    """R21: and is told with the reason."""
    world = World(graph("a", "b < a", callbacks=all_to(MAIL)))
    world.tasks[0].state = TaskState.SUCCESS
    world.tasks[1].elements = world.tasks[1].awaited = 2  # which are nowhere

    world.reconsider()

    (notice,) = [effect for effect in world.others if isinstance(effect, Notify)]
    assert (notice.context.on, notice.context.reason) == (On.FAILURE, world.journal[-1].reason)


@pytest.mark.parametrize(
    ("state", "occasion"), [(RunState.FAILED, "failure"), (RunState.SUCCESS, "success")], ids=["ended", "marked"]
)
def test_it_does_not_matter_that_a_user_ended_the_run(state: RunState, occasion: str) -> None:
    dag = graph("a", callbacks=each_to_its_own())
    run = run_view(state=RunState.RUNNING, state_seq=2)
    asked = RunEndRequested(dag_id="d", run_id=run.run_id, state=state, reason="enough")

    found = WholeRun(NOW, dag_view(dag, running=1), run, dag, (Instance(0, TaskState.SCHEDULED),))
    effects = run_end_requested.decide([message(asked)], found)

    assert told(effects) == [("run", 3, occasion, occasion)]


def timed_out(callbacks: tuple[Callback, ...]) -> list[Effect]:
    dag = graph("a", run_timeout_s=60.0, callbacks=callbacks)
    run = run_view(state=RunState.RUNNING, state_seq=2, times_out_at=NOW)
    state = run_timed_out.State(NOW, (), [run], {1: dag}, {1: {0: Instance(0, TaskState.SCHEDULED)}})
    return list(run_timed_out.decide([message(RunTimedOut(dag_run_id=1))], state))


def test_a_run_that_took_too_long_is_a_timeout_and_a_failure() -> None:
    assert told(timed_out(each_to_its_own())) == [("run", 3, "timeout", "timeout"), ("run", 3, "failure", "failure")]


def test_who_is_told_of_both_is_told_once() -> None:
    assert told(timed_out(all_to(TELL))) == [("run", 3, "timeout", "tell")]


def finishing(ends: Iterable[End], *, retries: int = 0, callbacks: tuple[Callback, ...] = (), **facts: Any) -> World:
    """A run of one task whose attempts end so, one after the other."""
    world = World(graph(task(f"a*{retries}", callbacks=callbacks, retry_delay_s=0.0, **facts)))
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
def test_what_became_of_a_task_is_told(ends: list[End], retries: int, expected: list[str]) -> None:
    world = finishing(ends, retries=retries, callbacks=each_to_its_own())

    assert [occasion for _, _, occasion, _ in told(world.others)] == expected


def test_a_task_is_told_of_with_the_number_and_the_facts_of_its_event() -> None:
    world = finishing([False], retries=1, callbacks=(Callback(On.RETRY, HOOK),))

    (notice,) = [effect for effect in world.others if isinstance(effect, Notify)]
    (event,) = [event for event in world.published if event.state == TaskState.UP_FOR_RETRY]
    context = notice.context
    assert (notice.about, notice.seq, notice.kind) == ("task", event.seq, "webhook")
    assert (context.task_id, context.try_number, context.state, context.at) == ("a", 1, "up_for_retry", NOW)
    assert (context.dag_id, context.run_id, context.run_type, context.run_after) == ("d", "r1", "manual", NOW)


def test_what_follows_from_the_end_of_another_task_is_no_failure_of_its_own() -> None:
    world = World(graph("a", task("b < a", callbacks=all_to(MAIL))))

    world.admit("a")
    world.finish(a=False)

    assert world.states()["b"] is TaskState.UPSTREAM_FAILED
    assert told(world.others) == []


@pytest.mark.parametrize(
    ("retries", "expected"),
    [(0, ["timeout", "failure"]), (1, ["timeout", "retry"])],
    ids=["for good", "with another try to come"],
)
def test_an_attempt_that_took_too_long_is_a_timeout_besides(retries: int, expected: list[str]) -> None:
    """The kill for taking too long is what it is known by."""
    dag = graph(task(f"a*{retries}", callbacks=each_to_its_own(), execution_timeout_s=90.0))
    world = World(dag)
    world.admit("a")
    world.accept("a")
    (id_,) = world.submissions
    found = attempt_timed_out.State(NOW, {1: world.run}, {1: dag}, world.submissions)

    (kill,) = attempt_timed_out.decide([message(AttemptTimedOut(submission_id=id_))], found)
    assert isinstance(kill, KillSubmissions)
    world.submissions[id_] = SubmissionView(
        submission_id=id_, dag_run_id=1, task_index=0, try_number=1, state=SubmissionState.ACCEPTED, kill_reason=kill.reason
    )
    world.finish_with(TaskFinished(submission_id=id_, outcome="killed", reason="killed on request"))

    assert kill.reason == timeout_reason(dag.nodes[0].task) == "it took longer than 90 s"
    assert [occasion for _, _, occasion, _ in told(world.others)] == expected


def test_each_receiver_of_an_event_is_told_and_none_twice() -> None:
    callbacks = (Callback(On.SUCCESS, MAIL), Callback(On.SUCCESS, HOOK), Callback(On.SUCCESS, TELL), Callback(On.SUCCESS, MAIL))

    world = finishing([True], callbacks=callbacks)

    assert [receiver for *_, receiver in told(world.others)] == ["EmailReceiver", "WebhookReceiver", "tell"]


def test_the_same_receiver_is_known_by_the_same_id_and_no_other_is() -> None:
    callbacks = (*all_to(MAIL), Callback(On.SUCCESS, EmailReceiver(("ops@example.org",), subject="x")))

    world = finishing([False, True], retries=1, callbacks=callbacks)

    retried, succeeded, other = [effect.receiver_id for effect in world.others if isinstance(effect, Notify)]
    assert retried == succeeded != other


def test_tasks_and_their_run_tell_of_themselves_only() -> None:
    dag = graph(task("a", callbacks=(Callback(On.SUCCESS, MAIL),)), "b", callbacks=(Callback(On.SUCCESS, MAIL),))
    world = World(dag)

    world.admit("a", "b")
    world.finish(a=True, b=True)

    assert [(about, occasion) for about, _, occasion, _ in told(world.others)] == [("task", "success"), ("run", "success")]


def test_a_cleared_run_tells_again_when_it_has_ended_again() -> None:
    """Every event has a number of its own, so that nothing is taken for a repetition."""
    dag = graph("a", callbacks=all_to(MAIL))
    first = World(dag)
    first.admit("a")
    first.finish(a=True)
    again = World(dag, waits=True, state_seq=4)
    again.admit("a")
    again.finish(a=True)

    assert [seq for _, seq, _, _ in told([*first.others, *again.others])] == [3, 6]


def test_an_event_tells_when_it_happened() -> None:
    dag = graph("a!", callbacks=all_to(MAIL))
    world = World(dag, logical_date=NOW - timedelta(days=1))

    (notice,) = [effect for effect in world.others if isinstance(effect, Notify)]

    assert (notice.context.at, notice.context.logical_date) == (NOW, NOW - timedelta(days=1))
