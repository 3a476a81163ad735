"""By when a condition is to hold, and what comes if it does not."""

from datetime import time
from typing import Any

import msgspec
import pytest

from tests.shapes import A, B
from tests.unit.handlers.event_driven_dags import Done, at, by, event, expiring, settled, timed, waiting
from tidegate.handlers.scheduling.late_inputs import SKIPPED
from tidegate.schemas.conditions.condition import AllOf, DatasetRef, InputDeadlineSpec, Timing
from tidegate.schemas.effect.deadline import Notify
from tidegate.schemas.effect.run import InsertRun
from tidegate.schemas.notice import MissedDeadline
from tidegate.schemas.receiver import Callback, EmailReceiver, On
from tidegate.schemas.view import DagView

BOTH = AllOf((A, B))
NINE = time(13)  # an hour from now
OPS = EmailReceiver(("ops@example.org",))


def after(fallback: Any, *events: Any, **facts: Any) -> DagView:
    return waiting(BOTH, *events, timing=by(fallback, after=10), **facts)


def dealt(done: Done) -> object:
    return done.clock and done.clock.deadline_at


@pytest.mark.parametrize("fallback", ["run_anyway", "skip", "alert"])
def test_the_deadline_is_looked_at_when_it_comes(fallback: str) -> None:
    done = settled(after(fallback, event(1, arrived=-4), event(2, arrived=-1)))

    assert (done.runs, done.discarded, done.noted, done.look) == ([], {}, [], 6)


def test_run_anyway_makes_a_run_of_what_has_arrived() -> None:
    done = settled(after("run_anyway", event(1, arrived=-10), event(2, arrived=-1)))

    assert (done.runs, done.look) == ([[1, 2]], None)
    assert done.noted == [("deadline_run", "the inputs had not arrived by 2024-05-01 12:00:00Z: the run starts without them")]
    assert dealt(done) == at(0)


def test_skip_discards_what_has_arrived() -> None:
    done = settled(after("skip", event(1, arrived=-10), event(2, arrived=-1)))

    assert (done.runs, done.discarded, done.look) == ([], {SKIPPED: [1, 2]}, None)
    assert done.noted == [("deadline_skip", "the inputs had not arrived by 2024-05-01 12:00:00Z: no run")]


def test_alert_says_so_once_and_everything_goes_on_waiting() -> None:
    done = settled(after("alert", event(1, arrived=-10)))
    again = settled(after("alert", event(1, arrived=-10), deadline_at=at(0)), 1)

    assert (done.runs, done.discarded, dealt(done)) == ([], {}, at(0))
    assert done.noted == [("deadline_alert", "the inputs had not arrived by 2024-05-01 12:00:00Z: the DAG still waits for them")]
    assert (again.noted, again.clock) == ([], None)


@pytest.mark.parametrize("fallback", ["run_anyway", "skip", "alert"])
def test_who_is_told_of_missed_deadlines_is_told_of_late_inputs_with_an_alert_alone(fallback: str) -> None:
    wanted = (Callback(On.DEADLINE, OPS), Callback(On.FAILURE, EmailReceiver(("boss@example.org",))))
    dag = after(fallback, event(1, arrived=-10))
    dag = msgspec.structs.replace(dag, graph=msgspec.structs.replace(dag.graph, callbacks=wanted))

    told = [effect for effect in settled(dag).effects if isinstance(effect, Notify)]

    assert [(each.receiver, each.dag_run_id, each.about) for each in told] == (
        [(OPS, None, "dag")] if fallback == "alert" else []
    )
    assert all(each.context.deadline == MissedDeadline(name="inputs", due_at=at(0)) for each in told)


def test_inputs_that_are_there_in_time_meet_the_deadline() -> None:
    done = settled(after("skip", event(1, arrived=-10), event(2, "b")))

    assert (done.runs, done.discarded, done.noted) == ([[1, 2]], {}, [])


def test_a_run_anyway_waits_for_room_and_then_runs() -> None:
    dag = after("run_anyway", event(1, arrived=-10), limit=1, running=1)

    assert (settled(dag).runs, settled(dag).look, dealt(settled(dag))) == ([], None, None)


def test_a_run_anyway_keeps_the_time_between_runs() -> None:
    deadline = by("run_anyway", after=10).deadline
    dag = waiting(BOTH, event(1, arrived=-10), timing=Timing(min_interval_s=600, deadline=deadline), dataset_run_at=at(-7))

    assert (settled(dag).runs, settled(dag).look) == ([], 3)
    assert settled(dag, 3).runs == [[1]]


def test_a_run_anyway_for_which_there_is_no_id_is_made_at_the_next_look() -> None:
    """A run of inputs that went together took the id; what is left over is overdue as well."""
    deadline = by("run_anyway", after=10).deadline
    events = (event(1, arrived=-20), event(2, "b", arrived=-20), event(3, arrived=-10))

    done = settled(waiting(BOTH, *events, timing=Timing(within_s=60, deadline=deadline)))

    assert (done.runs, done.look) == ([[1, 2]], 0)


def test_past_the_deadline_nobody_waits_for_quiet() -> None:
    deadline = by("skip", after=10).deadline
    dag = waiting(BOTH, event(1, arrived=-10), event(2, "b", arrived=-1), timing=Timing(quiet_for_s=600, deadline=deadline))

    assert (settled(dag).runs, settled(dag, -0.1).runs, settled(dag, -0.1).look) == ([[1, 2]], [], 0)


def test_inputs_that_do_not_go_together_miss_the_deadline() -> None:
    deadline = by("run_anyway", after=10).deadline
    dag = waiting(BOTH, event(1, arrived=-30), event(2, "b", arrived=-10), timing=Timing(within_s=60, deadline=deadline))

    assert settled(dag).runs == [[1, 2]]


@pytest.mark.parametrize("held_up", [{"limit": 1, "running": 1}, {"dataset_run_at": at(-1)}], ids=["no room", "too soon"])
def test_inputs_that_expire_in_part_while_their_run_is_held_up_miss_the_deadline_at_that_moment(held_up: Any) -> None:
    condition = AllOf((expiring("a", 15), A))
    deadline = by("skip", after=5).deadline
    dag = waiting(condition, event(1, arrived=-10), timing=Timing(min_interval_s=3600, deadline=deadline), **held_up)

    before, then = settled(dag), settled(dag, 5)

    assert (before.runs, before.discarded, before.look) == ([], {}, 5)
    assert (then.runs, then.discarded) == ([], {SKIPPED: [1]})


def test_what_was_not_read_misses_no_deadline() -> None:
    done = settled(waiting(BOTH, timing=by("alert", at=NINE), unread=True, deadline_at=at(-60), due_at=at(5)), 61)

    assert (done.noted, done.runs) == ([], [])


def test_a_daily_deadline_counts_from_when_it_is_first_seen() -> None:
    done = settled(waiting(BOTH, timing=by("skip", at=time(12))))

    assert (dealt(done), done.look, done.noted) == (at(0), 24 * 60, [])


@pytest.mark.parametrize(
    ("fallback", "runs", "discarded"), [("run_anyway", [[]], {}), ("skip", [], {}), ("alert", [], {})], ids=str
)
def test_a_daily_deadline_comes_also_where_nothing_has_arrived(
    fallback: str, runs: list[list[int]], discarded: dict[str, list[int]]
) -> None:
    done = settled(waiting(BOTH, timing=by(fallback, at=NINE), deadline_at=at(0)), 60)

    assert (done.runs, done.discarded, len(done.noted), dealt(done), done.look) == (runs, discarded, 1, at(60), 25 * 60)


def test_a_run_of_nothing_is_of_the_time_of_its_deadline() -> None:
    done = settled(waiting(BOTH, timing=by("run_anyway", at=NINE), deadline_at=at(0)), 61)

    (run,) = (effect for effect in done.effects if isinstance(effect, InsertRun))
    assert (run.run_after, run.run_id[:34]) == (at(60), "dataset__2024-05-01T13:00:00+00:00")


def test_a_daily_deadline_counts_from_when_it_is_first_seen_also_while_the_dag_is_paused() -> None:
    dag = waiting(BOTH, timing=by("run_anyway", at=NINE), is_paused=True)

    seen = settled(dag)
    unpaused = settled(msgspec.structs.replace(dag, is_paused=False, deadline_at=dealt(seen)), 65)

    assert (dealt(seen), unpaused.runs) == (at(0), [[]])


def test_a_daily_deadline_is_met_by_a_run_since_the_day_before() -> None:
    dag = waiting(BOTH, timing=by("alert", at=NINE), deadline_at=at(0), dataset_run_at=at(30))

    assert (settled(dag, 60).noted, settled(dag, 60).look) == ([], 25 * 60)


def test_a_daily_deadline_is_met_by_a_run_since_the_day_before_also_where_it_is_new() -> None:
    """A DAG's first run, or one that its version before made."""
    dag = waiting(BOTH, timing=by("alert", at=NINE), dataset_run_at=at(-22 * 60))

    assert settled(dag).look == 25 * 60


def test_a_daily_deadline_is_not_met_by_a_run_that_the_one_before_made() -> None:
    dag = waiting(BOTH, timing=by("alert", at=NINE), deadline_at=at(-23 * 60), dataset_run_at=at(-23 * 60))

    assert settled(dag).look == 60


def test_a_daily_deadline_is_missed_once_however_many_days_have_passed() -> None:
    done = settled(waiting(BOTH, timing=by("alert", at=NINE), deadline_at=at(0)), 60 + 3 * 24 * 60 + 5)

    assert ([said[27:43] for _, said in done.noted], done.look) == (["by 2024-05-04 13"], 60 + 4 * 24 * 60)


def test_a_daily_deadline_goes_by_the_clocks_of_its_zone() -> None:
    deadline = InputDeadlineSpec(at=time(15), timezone="Europe/Zurich", fallback="alert")

    assert settled(waiting(BOTH, timing=Timing(deadline=deadline), deadline_at=at(0))).look == 60


def test_a_condition_that_cannot_be_read_has_no_deadline() -> None:
    dag = waiting(DatasetRef("s://a", "n >"), event(1, arrived=-99), timing=by("skip", after=10))

    assert ([kind for kind, _ in settled(dag).noted], settled(dag).discarded) == (["condition_error"], {})


def test_timing_that_is_no_deadline_has_none() -> None:
    assert settled(waiting(BOTH, event(1, arrived=-99), timing=timed(within=5))).noted == []
