"""A run that failed names the tasks that failed: in its journal, its events and its notifications."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from tests.shapes import graph, task
from tests.unit.handlers.callbacks import one_callback_per_occasion
from tests.unit.handlers.simulated_run import SimulatedRun
from tests.unit.handlers.test_task_finished import ended
from tests.unit.handlers.well_formed import well_formed
from tidegate.handlers.runs.failures import MAX_FAILED_TASKS, failure_text
from tidegate.handlers.task_finished import decide
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.deadline import Notify
from tidegate.schemas.effect.run import RunMoved
from tidegate.schemas.effect.submission import EndSubmission
from tidegate.schemas.effect.task import TaskMoved, UpdateTask
from tidegate.schemas.notice import FailedTask, LogExcerpt
from tidegate.schemas.receiver import On
from tidegate.schemas.wire.event import MAX_LOG_TAIL, TaskFinished

LOG = LogExcerpt(host="h1", path="/spool/1/log", tail="no rows\nValueError: no rows")
EARLIER = FailedTask(task_id="early", try_number=2, reason="no disk", log=LOG)


def finished(world: SimulatedRun, *finishes: TaskFinished, earlier: Sequence[FailedTask] = ()) -> list[Effect]:
    """The effects of these ends, of a run with earlier failures."""
    state = msgspec.structs.replace(world.found(world.tasks), failures={world.run.id: tuple(earlier)})
    return well_formed(decide([ended(f.submission_id, f.outcome, str(n), **facts(f)) for n, f in enumerate(finishes)], state))


def facts(finish: TaskFinished) -> dict[str, Any]:
    known = msgspec.structs.asdict(finish)
    return {name: value for name, value in known.items() if name not in ("submission_id", "outcome")}


def failure(world: SimulatedRun, task_id: str, reason: str = "ValueError: no rows") -> TaskFinished:
    return TaskFinished(submission_id=world.attempt(task_id), outcome="failed", reason=reason, log=LOG)


def of(effects: Sequence[Effect], type_: type) -> list[Any]:
    return [effect for effect in effects if isinstance(effect, type_)]


def test_a_run_fails_for_the_reason_of_its_task_with_the_end_of_the_log() -> None:
    world = SimulatedRun(graph("a"))
    world.admit("a")

    effects = finished(world, failure(world, "a"))

    (run,) = of(effects, RunMoved)
    failed = FailedTask(task_id="a", try_number=1, reason="ValueError: no rows", log=LOG)
    assert (run.event.reason, run.event.failed_tasks) == ("task a failed in try 1: ValueError: no rows", (failed,))
    (move,) = of(effects, TaskMoved)
    assert (move.event.reason, move.event.log, move.event.map_index) == ("ValueError: no rows", LOG, UNSET)
    (end,) = of(effects, EndSubmission)
    assert (end.log_path, end.log_tail) == ("/spool/1/log", LOG.tail)
    assert [effect.instance.reason for effect in of(effects, UpdateTask)] == ["ValueError: no rows"]


def test_an_earlier_failure_decides_about_a_run_whose_last_task_succeeds() -> None:
    world = SimulatedRun(graph("early", "a"))
    world.admit("early", "a")
    world.finish(early=False)

    effects = finished(world, TaskFinished(submission_id=world.attempt("a"), outcome="succeeded"), earlier=[EARLIER])

    (run,) = of(effects, RunMoved)
    assert (run.event.state, run.event.reason) == ("failed", "task early failed in try 2: no disk")
    assert run.event.failed_tasks == (EARLIER,)


def test_a_run_that_succeeds_names_no_task() -> None:
    world = SimulatedRun(graph("a"))
    world.admit("a")

    (run,) = of(finished(world, TaskFinished(submission_id=world.attempt("a"), outcome="succeeded")), RunMoved)

    assert (run.event.reason, run.event.failed_tasks) == ("", UNSET)


def test_an_attempt_that_is_followed_by_another_shows_its_log_too() -> None:
    world = SimulatedRun(graph("a*1"))
    world.admit("a")

    effects = finished(world, failure(world, "a"))

    assert [(move.event.state, move.event.log) for move in of(effects, TaskMoved)] == [("up_for_retry", LOG)]
    assert of(effects, RunMoved) == []


def test_notifications_say_which_attempt_failed_why_and_where_its_log_is() -> None:
    callbacks = one_callback_per_occasion()
    world = SimulatedRun(graph(task("a", callbacks=callbacks), callbacks=callbacks))
    world.admit("a")

    notices = of(finished(world, failure(world, "a")), Notify)

    told = {notice.about: notice.context for notice in notices if notice.context.on is On.FAILURE}
    assert (told["task"].task_id, told["task"].try_number, told["task"].reason, told["task"].log) == (
        "a",
        1,
        "ValueError: no rows",
        LOG,
    )
    assert (told["run"].reason, told["run"].failed_tasks[0].log) == ("task a failed in try 1: ValueError: no rows", LOG)


def mapped(**of_graph: Any) -> SimulatedRun:
    """A run with two instances of `m`, which are at work."""
    world = SimulatedRun(graph("a", task("m < a", over="a"), **of_graph))
    world.returns["a"] = [1, 2]
    world.admit("a")
    world.finish(a=True)
    world.admit("m[0]", "m[1]")
    return world


def test_a_mapped_task_says_which_instance_failed_and_why() -> None:
    world = mapped()
    world.finish(**{"m[0]": True})

    effects = finished(world, failure(world, "m[1]"))

    moves = [(move.event.task_id, move.event.map_index, move.event.reason) for move in of(effects, TaskMoved)]
    why = "m[1] failed in try 1: ValueError: no rows"
    assert moves == [("m", 1, "ValueError: no rows"), ("m", UNSET, f"1 of 2 instances failed: {why}")]
    assert [u.instance.reason for u in of(effects, UpdateTask) if u.instance.index == 1] == [f"1 of 2 instances failed: {why}"]
    (run,) = of(effects, RunMoved)
    assert (run.event.reason, [(f.task_id, f.map_index) for f in run.event.failed_tasks]) == (f"task {why}", [("m", 1)])


def test_a_mapped_task_names_an_instance_that_failed_earlier() -> None:
    world = mapped()
    world.finish(**{"m[0]": False})
    earlier = FailedTask(task_id="m", map_index=0, try_number=1, reason="no disk")

    effects = finished(world, TaskFinished(submission_id=world.attempt("m[1]"), outcome="succeeded"), earlier=[earlier])

    assert [move.event.reason for move in of(effects, TaskMoved)] == [
        "",
        "1 of 2 instances failed: m[0] failed in try 1: no disk",
    ]


def test_a_mapped_task_names_all_instances_among_the_first_failures() -> None:
    world = mapped()
    world.finish(**{"m[0]": False})
    earlier = [EARLIER, FailedTask(task_id="m", map_index=0, try_number=1, reason="no disk")]

    effects = finished(world, failure(world, "m[1]"), earlier=earlier)

    said = [move.event.reason for move in of(effects, TaskMoved) if move.event.map_index is UNSET]
    (run,) = of(effects, RunMoved)
    assert said == ["2 of 2 instances failed: m[0] failed in try 1: no disk; so did m[1]"]
    assert run.event.reason == "task early failed in try 2: no disk; so did m[0] and m[1]"


@pytest.mark.parametrize(
    ("failed", "text"),
    [
        pytest.param([], "", id="none"),
        pytest.param(
            [FailedTask(task_id="m", try_number=0, reason="a returned no list")], "task m failed: a returned no list", id="m"
        ),
        pytest.param(
            [
                EARLIER,
                FailedTask(task_id="m", map_index=0, try_number=1, reason=""),
                FailedTask(task_id="b", try_number=1, reason=""),
            ],
            "task early failed in try 2: no disk; so did m[0] and b",
            id="several",
        ),
    ],
)
def test_failures_in_words(failed: Sequence[FailedTask], text: str) -> None:
    assert failure_text(failed) == text


def test_a_run_names_the_first_failures_only() -> None:
    world = SimulatedRun(graph(*"abcde"))
    world.admit(*"abcde")

    (run,) = of(finished(world, *(failure(world, name) for name in "abcde")), RunMoved)

    assert [failed.task_id for failed in run.event.failed_tasks] == ["a", "b", "c"][:MAX_FAILED_TASKS]


def test_the_end_of_a_log_is_cut_and_can_be_stored() -> None:
    world = SimulatedRun(graph("a"))
    world.admit("a")
    log = LogExcerpt(host="h\0", path="/x\ud800", tail="y" * 3 * MAX_LOG_TAIL + "\0end")

    (end,) = of(finished(world, msgspec.structs.replace(failure(world, "a"), log=log)), EndSubmission)

    assert (end.log_path, len(end.log_tail), end.log_tail[-4:]) == ("/x?", MAX_LOG_TAIL, " end")
