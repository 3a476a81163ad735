"""Tasks of runs are cleared and run again."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from tests.shapes import NOW, dag_view, graph, message, task
from tests.unit.handlers.simulated_run import End, SimulatedRun
from tests.unit.handlers.well_formed import well_formed
from tidegate.handlers.backfills.cascade import backfill_after
from tidegate.handlers.clear_requested import State, decide
from tidegate.handlers.runs import clear_selection
from tidegate.handlers.runs.clear_selection import tasks_to_clear
from tidegate.handlers.runs.create import promote
from tidegate.handlers.runs.outlets import announced_event_id, outlet_event_id
from tidegate.schemas.dag import TaskSpec
from tidegate.schemas.effect import Effect, RejectMessage
from tidegate.schemas.effect.backfill import InsertBackfill, InsertDate, TakeRun, UpdateBackfill
from tidegate.schemas.effect.dag import UpdateSchedule
from tidegate.schemas.effect.run import AnnounceOutlets, Reconsider, UpdateRun
from tidegate.schemas.effect.submission import KillSubmissions
from tidegate.schemas.effect.task import DropResult, TaskMoved, UpdateTask
from tidegate.schemas.graph import element_index, reachable
from tidegate.schemas.message import ClearRequested
from tidegate.schemas.state import BackfillState, DateState, KillCause, RunState, TaskState
from tidegate.schemas.view import Instance, RunView

OVERLAPPING = backfill_after(3, graph("a"), [NOW], (), NOW)
NONE, SCHEDULED, RUNNING, UP_FOR_RETRY = TaskState.NONE, TaskState.SCHEDULED, TaskState.RUNNING, TaskState.UP_FOR_RETRY
S, F, K, UF = TaskState.SUCCESS, TaskState.FAILED, TaskState.SKIPPED, TaskState.UPSTREAM_FAILED

CHAIN = ("a", "b < a", "c < b", "x")
SETUP, TEARDOWN = task("s", is_setup=True), task("z < s w", teardown_of=("s",))


def lived(*tasks: TaskSpec | str, **ends: End) -> SimulatedRun:
    """A run after these ends, one by one."""
    world = SimulatedRun(graph(*tasks))
    for task_id, end in ends.items():
        world.admit(task_id)
        world.finish(**{task_id: end})
    return world


def state_of(world: SimulatedRun, **facts: Any) -> State:
    return State(
        NOW,
        dag_view(world.graph, due_at=NOW + timedelta(days=1)),
        {1: world.run},
        {world.graph.version_id: world.graph},
        {1: {index: msgspec.structs.replace(world.tasks[index]) for index in world.tasks}},
        **facts,
    )


def cleared(world: SimulatedRun, found: State | None = None, **asked: Any) -> list[Effect]:
    asked.setdefault("run_id", "r1")
    return well_formed(decide([message(ClearRequested(dag_id="d", **asked))], found or state_of(world)))


@pytest.mark.parametrize(
    ("tasks", "failed", "asked", "chosen"),
    [
        pytest.param(CHAIN, "", {}, "abcx", id="all"),
        pytest.param(CHAIN, "", {"task_ids": ("b",)}, "bc", id="with what comes after it"),
        pytest.param(CHAIN, "", {"task_ids": ("b",), "downstream": False}, "b", id="alone"),
        pytest.param(CHAIN, "", {"task_ids": ("b",), "upstream": True}, "abc", id="with what comes before and after it"),
        pytest.param(
            CHAIN, "", {"task_ids": ("b",), "upstream": True, "downstream": False}, "ab", id="with what comes before it"
        ),
        pytest.param(CHAIN, "", {"task_ids": ("b", "x"), "downstream": False}, "bx", id="several"),
        pytest.param(CHAIN, "bx", {"only_failed": True}, "bx", id="all that failed"),
        pytest.param(CHAIN, "cx", {"task_ids": ("a",), "only_failed": True}, "c", id="what failed after it"),
        pytest.param(CHAIN, "", {"only_failed": True}, "", id="nothing failed"),
        pytest.param(CHAIN, "", {"task_ids": ("nobody",)}, "", id="nothing of that name"),
        pytest.param((SETUP, "w < s", TEARDOWN), "", {"task_ids": ("w",), "downstream": False}, "swz", id="with its setup"),
        pytest.param(
            (SETUP, "w < s", TEARDOWN), "", {"task_ids": ("z",), "downstream": False}, "sz", id="a teardown with its setup"
        ),
        pytest.param((SETUP, "w < s", TEARDOWN, "x"), "", {"task_ids": ("x",)}, "x", id="not with the setup of others"),
        pytest.param(
            (SETUP, "w < s", TEARDOWN, "x < z"), "", {"task_ids": ("x",)}, "x", id="not with a setup that was torn down"
        ),
    ],
)
def test_requested_tasks_are_cleared_with_their_setups_and_teardowns(
    tasks: Sequence[TaskSpec | str], failed: str, asked: Mapping[str, Any], chosen: str
) -> None:
    dag = graph(*tasks)
    ids = [node.task.task_id for node in dag.nodes]
    instances = {index: Instance(index, F if task_id in failed else S) for index, task_id in enumerate(ids)}

    found = tasks_to_clear(dag, instances, ClearRequested(dag_id="d", run_id="r1", **asked))

    assert sorted(ids[index] for index in found) == sorted(chosen)


def test_only_around_teardowns_the_graph_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[set[int]] = []

    def found_from(start: Iterable[int], neighbours: Callable[[int], Iterable[int]]) -> set[int]:
        searched.append(set(start))
        return reachable(searched[-1], neighbours)

    monkeypatch.setattr(clear_selection, "reachable", found_from)
    dag = graph(*CHAIN, SETUP, "w < s", TEARDOWN)
    tasks_to_clear(dag, {}, ClearRequested(dag_id="d", task_ids=("x",), downstream=False))

    assert searched == [{4}, {6}]  # from the setup to its teardown, and back


def test_an_ended_run_is_queued_and_its_dag_is_due() -> None:
    world = lived("a*1", "b < a", a=True, b=False)

    effects = cleared(world, task_ids=("b",))
    world.apply(effects)

    assert (world.states(), world.run.state) == ({"a": S, "b": NONE}, RunState.QUEUED)
    assert [(event.state, event.reason) for event in world.journal[-2:]] == [
        ("failed", "task b failed in try 1"),
        ("queued", "cleared by a user"),
    ]
    assert (world.published[-1].state, world.published[-1].at) == ("none", NOW)
    assert [effect.due_at for effect in effects if isinstance(effect, UpdateSchedule)] == [NOW]
    assert not any(isinstance(effect, Reconsider) for effect in effects)
    world.check()


def test_a_running_run_keeps_running_and_is_reconsidered() -> None:
    world = lived("a", "b < a", "x", a=True, b=False)

    effects = cleared(world, task_ids=("b",))
    world.apply(effects)

    assert (world.states(), world.run.state) == ({"a": S, "b": NONE, "x": SCHEDULED}, RunState.RUNNING)
    assert [effect for effect in effects if isinstance(effect, Reconsider)] == [Reconsider(1)]
    world.check()


def test_a_queued_run_stays_queued() -> None:
    world = lived("a", "b", a=True, b=False)
    world.apply(cleared(world, task_ids=("b",)))

    effects = cleared(world, task_ids=("a",))
    world.apply(effects)

    assert [(e.state, e.unfinished) for e in effects if isinstance(e, UpdateRun)] == [(RunState.QUEUED, 2)]
    assert [event.state for event in world.journal][-2:] == ["failed", "queued"]
    world.check()


@pytest.mark.parametrize(("tried", "tries"), [(1, 3), (2, 4)])
def test_a_cleared_task_has_all_its_tries_and_keeps_counting(tried: int, tries: int) -> None:
    world = lived("a*1", a=False)
    if tried == 2:
        world.retry("a")
        world.admit("a")
        world.finish(a=False)

    world.apply(cleared(world))

    assert (world.tasks[0].try_number, world.tasks[0].max_tries) == (tried, tries)


def test_a_cleared_task_does_not_wait_for_its_retry() -> None:
    world = lived("a*1", a=False)

    world.apply(cleared(world))

    assert (world.tasks[0].state, world.tasks[0].next_try_at) == (NONE, None)


def test_an_active_task_is_killed_and_waits_again_once_its_attempt_has_ended() -> None:
    world = SimulatedRun(graph("a"))
    world.admit("a")
    attempt = world.attempt("a")

    effects = cleared(world)
    world.apply(effects)
    (kill,) = (effect for effect in effects if isinstance(effect, KillSubmissions))
    world.submissions[attempt] = msgspec.structs.replace(
        world.submissions[attempt], kill_reason=kill.reason, kill_cause=kill.cause
    )
    world.finish(a=False)
    assert world.states() == {"a": TaskState.NONE}
    world.reconsider()

    assert (kill.dag_run_id, kill.task_index) == (1, 0)
    assert (world.states(), world.tasks[0].next_try_at) == ({"a": SCHEDULED}, None)
    assert [event.state for event in world.published] == ["scheduled", "queued", "none", "scheduled"]
    world.check()


def test_the_instances_of_a_cleared_mapped_task_are_removed_and_say_why() -> None:
    world = SimulatedRun(graph("list", task("each*1 < list", over="list")))
    world.returns["list"] = ["a", "b", "c"]
    for admitted, ends in (("list", {"list": True}), ("each[0]", {"each[0]": False}), ("each[1]", {})):
        world.admit(admitted)
        world.finish(**ends)
    elements = [element_index(1, element) for element in range(3)]

    effects = cleared(world, task_ids=("each",))

    said = "its mapped task was cleared by a user"
    assert [it for it in effects if isinstance(it, DropResult)] == [DropResult(1, index) for index in (1, *elements)]
    assert [it for it in effects if isinstance(it, KillSubmissions)] == [KillSubmissions(1, elements[1], said, KillCause.STOPPED)]
    events = [it.event for it in effects if isinstance(it, TaskMoved)]
    assert [(it.label, it.state, it.try_number, it.reason) for it in events] == [
        ("each[0]", TaskState.REMOVED, 1, said),
        ("each[1]", TaskState.REMOVED, 1, said),
        ("each[2]", TaskState.REMOVED, 0, said),
    ]
    written = {it.instance.index: it for it in effects if isinstance(it, UpdateTask)}
    assert {(written[index].instance.reason, written[index].dates.end_date) for index in elements} == {(said, NOW)}
    assert (written[1].instance.reason, written[1].dates.end_date) == ("", None)


def test_a_cleared_task_keeps_the_number_of_its_last_try() -> None:
    effects = cleared(lived("a*1", a=True))

    assert [(it.event.state, it.event.try_number) for it in effects if isinstance(it, TaskMoved)] == [("none", 1)]


def test_a_task_that_waits_for_the_run_before_waits_again() -> None:
    world = SimulatedRun(graph(task("a", depends_on_past=True)))
    world.reconsider()
    world.admit("a")
    world.finish(a=True)

    world.apply(cleared(world))

    assert world.tasks[0].waits_for_past


def test_decisions_that_followed_from_a_failure_are_taken_again() -> None:
    world = lived("a", "b < a", "c:one_failed < a", a=False)
    world.apply(cleared(world, task_ids=("a",)))

    world.reconsider()
    world.admit("a")
    world.finish(a=True)

    assert world.states() == {"a": S, "b": SCHEDULED, "c": K}


@pytest.mark.parametrize(
    ("asked", "reason", "said"),
    [
        pytest.param({"task_ids": ("nobody",)}, "no_such_task", "DAG 'd' has no task 'nobody' in these runs", id="no such task"),
        pytest.param(
            {"only_failed": True},
            "nothing_to_clear",
            "these runs have no task to clear: none has started, or none has failed",
            id="nothing failed",
        ),
        *(
            pytest.param(
                {"shown": shown},
                "not_as_shown",
                f"the runs to clear changed since they were shown ({run!r} differs); show them again, and repeat",
                id=f"shown {len(shown)} runs",
            )
            for shown, run in (((), "r1"), (("r0", "r1"), "r0"))
        ),
    ],
)
def test_a_request_without_tasks_to_clear_is_rejected(asked: Mapping[str, Any], reason: str, said: str) -> None:
    assert cleared(lived("a", a=True), **asked) == [RejectMessage(reason, said)]


def test_too_many_runs_are_not_cleared() -> None:
    (rejected,) = decide([message(ClearRequested(dag_id="d", start=NOW))], State(NOW, dag_view(graph("a")), too_many=12_345))

    said = (
        "these are 12,345 runs; one request clears at most 10,000 runs, of about 100,000 tasks together: "
        "choose a shorter time range"
    )
    assert rejected == RejectMessage("too_many_runs", said)


@pytest.mark.parametrize(
    ("asked", "said"),
    [({"run_id": "r9"}, "DAG 'd' has no run 'r9'"), ({"start": NOW}, "DAG 'd' has no run in that time")],
    ids=["no such run", "no run in that time"],
)
def test_runs_that_do_not_exist_cannot_be_cleared(asked: Mapping[str, Any], said: str) -> None:
    wish = message(ClearRequested(dag_id="d", **asked))

    effects = well_formed(decide([wish], State(NOW, dag_view(graph("a")))))

    assert effects == [RejectMessage("nothing_to_clear", said)]


def test_a_run_that_has_not_started_has_nothing_to_clear() -> None:
    world = SimulatedRun(graph("a"))
    waiting = State(NOW, dag_view(world.graph), {1: world.run}, {1: world.graph}, {})

    (effect,) = decide([message(ClearRequested(dag_id="d", run_id="r1"))], waiting)

    assert isinstance(effect, RejectMessage)
    assert effect.reason == "nothing_to_clear"


def test_the_runs_that_were_shown_are_cleared() -> None:
    asked_once, asked_twice = cleared(lived("a", a=True)), cleared(lived("a", a=True), shown=("r1",))

    assert asked_twice == asked_once


def test_runs_of_a_dag_that_does_not_exist_cannot_be_cleared() -> None:
    effects = well_formed(decide([message(ClearRequested(dag_id="d"))], State(NOW, None)))

    assert effects == [RejectMessage("no_such_dag", "there is no DAG 'd'; `tidegate dags list` shows all")]


WRITER = (task("a", outlets=("s://a",)), "b")
TO_CONSUMER = {"edges": (("d", "e"),)}


def cascading(world: SimulatedRun, facts: Mapping[str, Any] = TO_CONSUMER, **asked: Any) -> list[Effect]:
    return cleared(world, state_of(world, **facts), **{"cascade": True, "backfill_id": 7, **asked})


def test_a_cascade_takes_the_cleared_runs_as_the_dates_of_a_backfill_at_work() -> None:
    effects = cascading(lived(*WRITER, a=True, b=True))

    (backfill,) = (it.backfill for it in effects if isinstance(it, InsertBackfill))
    assert (backfill.id, backfill.stages, backfill.is_planned, backfill.state) == (7, ("e",), True, BackfillState.RUNNING)
    assert [it for it in effects if isinstance(it, UpdateBackfill)] == [UpdateBackfill(backfill, NOW)]
    assert [it for it in effects if isinstance(it, InsertDate)] == [InsertDate(7, 1, NOW, DateState.OPEN, 1, again_since=NOW)]
    assert [it for it in effects if isinstance(it, TakeRun)] == [TakeRun(1, 7, None, None, 0, updates_outlets=True)]


@pytest.mark.parametrize(
    ("facts", "asked", "said"),
    [
        ({"edges": ()}, {}, None),
        (TO_CONSUMER, {"task_ids": ("b",)}, "none of these tasks updates a dataset: leave out cascade and announce"),
        (TO_CONSUMER, {"announce": True}, "a cascade runs the consumers again, and announced events start new runs of them"),
        ({"edges": (("d", "e"), ("e", "d"))}, {}, "DAGs consume from each other in a cycle"),
        ({**TO_CONSUMER, "refusing": ("e",)}, {}, "the cascade would come to DAG 'e', whose file says allow_backfills=False"),
        ({**TO_CONSUMER, "others": (OVERLAPPING,)}, {}, "backfill 3 of DAG 'd' is running and has dates of the same time"),
    ],
)
def test_a_cascade_that_cannot_be_is_rejected(facts: Mapping[str, Any], asked: Mapping[str, Any], said: str | None) -> None:
    effects = cascading(lived(*WRITER, a=True, b=True), facts, **asked)

    assert not any(isinstance(it, InsertBackfill) for it in effects)
    assert [it.message.startswith(said or "") for it in effects if isinstance(it, RejectMessage)] == [True] * (said is not None)


def test_a_run_of_an_unended_backfill_is_in_no_second_one() -> None:
    world = lived(*WRITER, a=True, b=True)
    world.run = msgspec.structs.replace(world.run, backfill_id=3)

    (rejected,) = cascading(world, {**TO_CONSUMER, "busy": frozenset({3})})

    said = "backfill 3 has not ended, and runs 'r1' already; wait for its end, cancel it, or leave out cascade"
    assert rejected == RejectMessage("not_possible", said)


def test_announced_outlets_are_counted_by_task() -> None:
    world = lived(*WRITER, a=True, b=True)
    world.run = msgspec.structs.replace(world.run, announced={"a": 1, "x": 5})

    effects = cleared(world, announce=True)

    assert [it for it in effects if isinstance(it, AnnounceOutlets)] == [AnnounceOutlets(1, {"a": 2, "x": 5})]


def test_the_event_of_an_announced_outlet_has_an_id_of_its_own() -> None:
    run = lived(*WRITER).run

    ids = [announced_event_id(replaced, "a", "s://a", "a") for replaced in (run, announced(run, 1), announced(run, 2))]

    assert ids[0] == outlet_event_id("d", "r1", "a", "s://a")
    assert len({*ids, announced_event_id(announced(run, 1), "a", "s://b", "a")}) == 4


def announced(run: RunView, number: int) -> RunView:
    return msgspec.structs.replace(run, announced={"a": number})


def mapped(*, first: bool = True) -> SimulatedRun:
    """A run that ended: of three instances the second failed."""
    world = SimulatedRun(graph("list", task("each*1 < list", over="list"), "after < each"))
    world.returns["list"] = ["a", "b", "c"]
    world.admit("list")
    world.finish(list=True)
    for label, ends in (("each[0]", (first,)), ("each[1]", (False, False)), ("each[2]", (True,))):
        for number, end in enumerate(ends):
            if number:
                world.retry(label)
            world.admit(label)
            world.finish(**{label: end})
    return world


def test_one_instance_of_a_mapped_task_runs_again_with_all_its_tries() -> None:
    world = mapped()
    assert (world.run.state, world.tasks[world.index["each[1]"]].try_number) == (RunState.FAILED, 2)

    world.apply(cleared(world, task_ids=("each[1]",)))
    assert (world.states()["each[1]"], world.states()["each[0]"], world.states()["after"]) == (NONE, S, NONE)
    assert world.tasks[world.index["each[1]"]].max_tries == 4
    world.apply(promote(world.run, world.graph, NOW))
    world.reconsider()
    world.admit("each[1]")
    world.finish(**{"each[1]": False})
    assert world.states()["each[1]"] is UP_FOR_RETRY
    world.retry("each[1]")
    world.admit("each[1]")
    world.finish(**{"each[1]": True})

    assert (world.states()["each"], world.states()["after"]) == (S, SCHEDULED)
    assert [world.tasks[world.index[f"each[{element}]"]].try_number for element in range(3)] == [1, 4, 1]
    world.check()


@pytest.mark.parametrize(
    ("asked", "chosen"),
    [
        ({"task_ids": ("each[1]",)}, ["each[1]", "after"]),
        ({"task_ids": ("each[1]",), "downstream": False}, ["each[1]"]),
        ({"task_ids": ("each[1]", "each[2]"), "downstream": False}, ["each[1]", "each[2]"]),
        ({"task_ids": ("each[1]", "each"), "downstream": False}, ["each"]),
        ({"task_ids": ("each[1]",), "upstream": True, "downstream": False}, ["list", "each"]),
        ({"task_ids": ("each[1]", "list"), "downstream": False}, ["list", "each"]),
        ({"task_ids": ("each[0]", "each[1]"), "downstream": False, "only_failed": True}, ["each[1]"]),
    ],
)
def test_instances_are_chosen_by_name(asked: Mapping[str, Any], chosen: list[str]) -> None:
    world = mapped()

    found = tasks_to_clear(world.graph, world.tasks, ClearRequested(dag_id="d", **asked))

    assert sorted(map(world.graph.label, found)) == sorted(chosen)


@pytest.mark.parametrize("name", ["each[3]", "each[x]", "list[0]", "each[1", "each[99999]"])
def test_an_instance_that_no_run_has_is_no_task(name: str) -> None:
    (rejected,) = cleared(mapped(), task_ids=(name,))

    assert rejected == RejectMessage("no_such_task", f"DAG 'd' has no task {name!r} in these runs")


def test_an_instance_at_work_is_killed_and_runs_again() -> None:
    world = SimulatedRun(graph("list", task("each < list", over="list")))
    world.returns["list"] = ["a", "b"]
    world.admit("list")
    world.finish(list=True)
    world.admit("each[0]")

    effects = cleared(world, task_ids=("each[0]",))
    world.apply(effects)

    (kill,) = (it for it in effects if isinstance(it, KillSubmissions))
    assert (kill.task_index, kill.cause) == (element_index(1, 0), KillCause.CLEARED)
    attempt = world.attempt("each[0]")
    world.submissions[attempt] = msgspec.structs.replace(
        world.submissions[attempt], kill_reason=kill.reason, kill_cause=kill.cause
    )
    world.finish(**{"each[0]": False})
    world.reconsider()
    assert world.states()["each[0]"] is SCHEDULED


def test_a_teardown_is_cleared_with_an_instance_between_it_and_its_setup() -> None:
    world = SimulatedRun(graph(SETUP, task("each < s", over="s"), task("z < s each", teardown_of=("s",))))
    world.returns["s"] = ["a", "b"]
    world.admit("s")
    world.finish(s=True)

    found = tasks_to_clear(world.graph, world.tasks, ClearRequested(dag_id="d", task_ids=("each[0]",), downstream=False))

    assert sorted(map(world.graph.label, found)) == ["each", "s", "z"]
