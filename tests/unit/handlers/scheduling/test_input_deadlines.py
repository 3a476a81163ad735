"""Input deadlines and their fallbacks."""

from datetime import datetime, time
from typing import Any

import msgspec
import pytest

from tests.shapes import A, B
from tests.unit.handlers.event_driven_dags import Outcome, at, by, consumer, event, expiring, scheduled, timed
from tidegate.handlers.runs.run_ids import dataset_run_id
from tidegate.handlers.scheduling import input_deadline
from tidegate.handlers.scheduling.blockers import next_dataset_run
from tidegate.handlers.scheduling.late_inputs import SKIPPED
from tidegate.schemas.conditions.condition import AllOf, DatasetRef, InputDeadlineSpec, Timing
from tidegate.schemas.effect.deadline import Notify
from tidegate.schemas.effect.run import InsertRun
from tidegate.schemas.explain.reasons import InputsMissing
from tidegate.schemas.notice import MissedDeadline
from tidegate.schemas.receiver import Callback, EmailReceiver, On
from tidegate.schemas.time_range import EARLIEST
from tidegate.schemas.timetable import wallclock
from tidegate.schemas.timetable.spec import Dates
from tidegate.schemas.view import DagView

BOTH = AllOf((A, B))
NINE = time(13)  # an hour from now
OPS = EmailReceiver(("ops@example.org",))


def after(fallback: Any, *events: Any, **facts: Any) -> DagView:
    return consumer(BOTH, *events, timing=by(fallback, after=10), **facts)


def dealt(done: Outcome) -> object:
    return done.clock and done.clock.deadline_at


@pytest.mark.parametrize("fallback", ["run_anyway", "skip", "alert"])
def test_the_clock_visits_a_dag_at_its_deadline(fallback: str) -> None:
    done = scheduled(after(fallback, event(1, arrived=-4), event(2, arrived=-1)))

    assert (done.runs, done.discarded, done.noted, done.wakeup) == ([], {}, [], 6)


@pytest.mark.parametrize("timing", [by("skip", after=10), by("skip", at=NINE)], ids=["after the first event", "daily"])
def test_a_deadline_does_not_hide_which_inputs_are_missing(timing: Timing) -> None:
    """Before the first event, and before the first decision."""
    assert next_dataset_run(consumer(BOTH, timing=timing), at(0)) == InputsMissing(("s://a", "s://b"))


def test_run_anyway_starts_a_run_of_the_events_that_arrived() -> None:
    done = scheduled(after("run_anyway", event(1, arrived=-10), event(2, arrived=-1)))

    assert (done.runs, done.wakeup) == ([[1, 2]], None)
    assert done.noted == [("deadline_run", "the inputs had not arrived by 2024-05-01 12:00:00Z: the run starts without them")]
    assert dealt(done) == at(0)


def test_skip_discards_the_events_that_arrived() -> None:
    done = scheduled(after("skip", event(1, arrived=-10), event(2, arrived=-1)))

    assert (done.runs, done.discarded, done.wakeup) == ([], {SKIPPED: [1, 2]}, None)
    assert done.noted == [("deadline_skip", "the inputs had not arrived by 2024-05-01 12:00:00Z: no run")]


@pytest.mark.parametrize("fallback", ["run_anyway", "skip"])
def test_a_missed_deadline_leaves_no_event_that_can_expire(fallback: str) -> None:
    done = scheduled(consumer(AllOf((expiring("a", 60), B)), event(1, arrived=-10), timing=by(fallback, after=10)))

    assert (len(done.noted), done.wakeup) == (1, None)


def test_an_alert_is_sent_once_and_the_events_stay_pending() -> None:
    done = scheduled(after("alert", event(1, arrived=-10)))
    again = scheduled(after("alert", event(1, arrived=-10), deadline_at=at(0)), 1)

    assert (done.runs, done.discarded, dealt(done)) == ([], {}, at(0))
    assert done.noted == [("deadline_alert", "the inputs had not arrived by 2024-05-01 12:00:00Z: the DAG still waits for them")]
    assert (again.noted, again.clock) == ([], None)


@pytest.mark.parametrize("fallback", ["run_anyway", "skip", "alert"])
def test_receivers_of_missed_deadlines_are_notified_of_late_inputs_only_by_an_alert(fallback: str) -> None:
    wanted = (Callback(On.DEADLINE, OPS), Callback(On.FAILURE, EmailReceiver(("boss@example.org",))))
    dag = after(fallback, event(1, arrived=-10))
    dag = msgspec.structs.replace(dag, graph=msgspec.structs.replace(dag.graph, callbacks=wanted))

    done = scheduled(dag)
    told = [effect for effect in done.effects if isinstance(effect, Notify)]

    assert [(each.receiver, each.dag_run_id, each.about) for each in told] == (
        [(OPS, None, "dag")] if fallback == "alert" else []
    )
    assert all(each.context.deadline == MissedDeadline(name="inputs", due_at=at(0)) for each in told)
    assert all((each.context.at, each.context.reason) == (at(0), done.noted[0][1]) for each in told)


def test_inputs_that_arrive_in_time_meet_the_deadline() -> None:
    done = scheduled(after("skip", event(1, arrived=-10), event(2, "b")))

    assert (done.runs, done.discarded, done.noted) == ([[1, 2]], {}, [])


def test_a_run_anyway_waits_for_capacity() -> None:
    dag = after("run_anyway", event(1, arrived=-10), limit=1, running=1)

    assert (scheduled(dag).runs, scheduled(dag).wakeup, dealt(scheduled(dag))) == ([], None, None)


def test_a_run_anyway_keeps_the_minimum_interval() -> None:
    deadline = by("run_anyway", after=10).deadline
    dag = consumer(BOTH, event(1, arrived=-10), timing=Timing(min_interval_s=600, deadline=deadline), dataset_run_at=at(-7))

    assert (scheduled(dag).runs, scheduled(dag).wakeup) == ([], 3)
    assert scheduled(dag, 3).runs == [[1]]


def test_a_run_anyway_without_an_id_starts_at_the_next_wakeup() -> None:
    """A run of inputs that went together took the id; what is left over is overdue as well."""
    deadline = by("run_anyway", after=10).deadline
    events = (event(1, arrived=-20), event(2, "b", arrived=-20), event(3, arrived=-10))

    done = scheduled(consumer(BOTH, *events, timing=Timing(within_s=60, deadline=deadline)))

    assert (done.runs, done.wakeup) == ([[1, 2]], 0)


def test_after_the_deadline_the_condition_is_not_debounced() -> None:
    deadline = by("skip", after=10).deadline
    dag = consumer(BOTH, event(1, arrived=-10), event(2, "b", arrived=-1), timing=Timing(quiet_for_s=600, deadline=deadline))

    assert (scheduled(dag).runs, scheduled(dag, -0.1).runs, scheduled(dag, -0.1).wakeup) == ([[1, 2]], [], 0)


def test_inputs_outside_the_window_miss_the_deadline() -> None:
    deadline = by("run_anyway", after=10).deadline
    dag = consumer(BOTH, event(1, arrived=-30), event(2, "b", arrived=-10), timing=Timing(within_s=60, deadline=deadline))

    assert scheduled(dag).runs == [[1, 2]]


@pytest.mark.parametrize("held_up", [{"limit": 1, "running": 1}, {"dataset_run_at": at(-1)}], ids=["no capacity", "rate limited"])
def test_inputs_of_a_blocked_run_that_expire_for_one_leaf_miss_the_deadline_at_that_time(held_up: Any) -> None:
    condition = AllOf((expiring("a", 15), A))
    deadline = by("skip", after=5).deadline
    dag = consumer(condition, event(1, arrived=-10), timing=Timing(min_interval_s=3600, deadline=deadline), **held_up)

    before, then = scheduled(dag), scheduled(dag, 5)

    assert (before.runs, before.discarded, before.wakeup) == ([], {}, 5)
    assert (then.runs, then.discarded) == ([], {SKIPPED: [1]})


def test_unread_events_miss_no_deadline() -> None:
    done = scheduled(consumer(BOTH, timing=by("alert", at=NINE), unread=True, deadline_at=at(-60), due_at=at(5)), 61)

    assert (done.noted, done.runs) == ([], [])


def test_a_daily_deadline_counts_from_when_it_is_first_seen() -> None:
    done = scheduled(consumer(BOTH, timing=by("skip", at=time(12))))

    assert (dealt(done), done.wakeup, done.noted) == (at(0), 24 * 60, [])


@pytest.mark.parametrize(
    ("fallback", "runs", "discarded"), [("run_anyway", [[]], {}), ("skip", [], {}), ("alert", [], {})], ids=str
)
def test_a_daily_deadline_is_missed_even_if_no_event_arrived(
    fallback: str, runs: list[list[int]], discarded: dict[str, list[int]]
) -> None:
    done = scheduled(consumer(BOTH, timing=by(fallback, at=NINE), deadline_at=at(0)), 60)

    assert (done.runs, done.discarded, len(done.noted), dealt(done), done.wakeup) == (runs, discarded, 1, at(60), 25 * 60)


def test_a_run_without_events_has_the_time_of_its_deadline_and_an_id_of_its_own() -> None:
    done = scheduled(consumer(BOTH, timing=by("run_anyway", at=NINE), deadline_at=at(0)), 61)

    (run,) = (effect for effect in done.effects if isinstance(effect, InsertRun))
    assert (run.id, run.run_after, run.run_id) == (100, at(60), dataset_run_id(100, at(60), ()))


def test_a_daily_deadline_counts_from_when_it_is_first_seen_also_while_the_dag_is_paused() -> None:
    dag = consumer(BOTH, timing=by("run_anyway", at=NINE), is_paused=True)

    seen = scheduled(dag)
    unpaused = scheduled(msgspec.structs.replace(dag, is_paused=False, deadline_at=dealt(seen)), 65)

    assert (dealt(seen), unpaused.runs) == (at(0), [[]])


@pytest.mark.parametrize("ran", [-22 * 60, 30, 60], ids=["soon after that", "later", "at the last moment"])
def test_a_daily_deadline_is_met_by_a_run_since_the_day_before(ran: float) -> None:
    dag = consumer(BOTH, timing=by("alert", at=NINE), deadline_at=at(0), dataset_run_at=at(ran))

    assert (scheduled(dag, 60).noted, scheduled(dag, 60).wakeup) == ([], 25 * 60)


def test_a_daily_deadline_is_met_by_a_run_since_the_day_before_also_where_it_is_new() -> None:
    """A DAG's first run, or one that its version before made."""
    dag = consumer(BOTH, timing=by("alert", at=NINE), dataset_run_at=at(-22 * 60))

    assert scheduled(dag).wakeup == 25 * 60


def test_a_daily_deadline_is_not_met_by_a_run_that_the_one_before_made() -> None:
    dag = consumer(BOTH, timing=by("alert", at=NINE), deadline_at=at(-23 * 60), dataset_run_at=at(-23 * 60))

    assert scheduled(dag).wakeup == 60


def test_a_daily_deadline_is_not_met_by_a_run_by_time() -> None:
    or_time: dict[str, Any] = {"timetable": Dates((at(30),)), "missed": "all", "start_date": at(0)}

    done = scheduled(consumer(BOTH, timing=by("alert", at=NINE), deadline_at=at(0), timed_run_ids=(201,), **or_time), 30)

    assert (done.runs, done.wakeup) == ([[]], 60)


def test_a_daily_deadline_is_missed_once_however_many_days_have_passed() -> None:
    done = scheduled(consumer(BOTH, timing=by("alert", at=NINE), deadline_at=at(0)), 60 + 3 * 24 * 60 + 5)

    assert ([said[27:43] for _, said in done.noted], done.wakeup) == (["by 2024-05-04 13"], 60 + 4 * 24 * 60)


def test_a_daily_deadline_of_a_century_ago_takes_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server's clock may have been wrong. Walking through the days takes seconds."""
    asked: list[datetime] = []

    def counted(wall: datetime, zone: str) -> datetime:
        asked.append(wall)
        return wallclock.instant(wall, zone)

    monkeypatch.setattr(input_deadline, "instant", counted)

    done = scheduled(consumer(BOTH, timing=by("alert", at=NINE), deadline_at=EARLIEST), 0)

    assert ([said[27:43] for _, said in done.noted], done.wakeup) == (["by 2024-04-30 13"], 60)
    assert len(asked) < 100


def test_a_daily_deadline_is_exact_to_the_second() -> None:
    assert scheduled(consumer(BOTH, timing=by("alert", at=time(13, 30, 15)), deadline_at=at(0.1))).wakeup == 90.25


def test_a_daily_deadline_goes_by_the_clocks_of_its_zone() -> None:
    deadline = InputDeadlineSpec(at=time(15), timezone="Europe/Zurich", fallback="alert")

    assert scheduled(consumer(BOTH, timing=Timing(deadline=deadline), deadline_at=at(0))).wakeup == 60


def test_a_condition_with_an_invalid_filter_has_no_deadline() -> None:
    dag = consumer(DatasetRef("s://a", "n >"), event(1, arrived=-99), timing=by("skip", after=10))

    assert ([kind for kind, _ in scheduled(dag).noted], scheduled(dag).discarded) == (["condition_error"], {})


def test_a_condition_without_a_deadline_misses_none() -> None:
    assert scheduled(consumer(BOTH, event(1, arrived=-99), timing=timed(within=5))).noted == []
