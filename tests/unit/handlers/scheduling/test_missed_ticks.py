"""Ticks that make no run because a later one does leave a note that names the rule."""

import pytest

from tests.shapes import NOW, A, dag_view, graph
from tests.unit.handlers.event_driven_dags import event
from tests.unit.handlers.timed_dags import at, scheduled, tick, timed, view
from tidegate.handlers.scheduling.missed_ticks import MOST
from tidegate.handlers.scheduling.next_runs import RunEnd, schedule_after_ends
from tidegate.schemas.effect.dag import NoteSchedule
from tidegate.schemas.state import RunState
from tidegate.schemas.timetable.spec import Cron
from tidegate.schemas.view import DagView

LATEST = "without catchup only the latest tick that is due makes one"
SKIP = "with missed='skip' only a tick less than a minute old makes one"
IDLE = "no run could start then"
FULL = "max_active_runs is 1"
ONE = "the tick of 2024-05-01 11:57:00Z made no run"
MINUTELY = graph("t", timetable=Cron(("* * * * *",)))


def notes(dag: DagView) -> list[str]:
    found = [effect for effect in scheduled(dag) if isinstance(effect, NoteSchedule)]
    assert {note.kind for note in found} <= {"tick_missed"}
    return [note.reason for note in found]


@pytest.mark.parametrize(
    ("dag", "said"),
    [
        pytest.param(
            view(timed(-4, -3, -2, missed="latest"), last_tick=tick(-4)),
            [f"the tick of 2024-05-01 11:57:00Z made no run: {IDLE}, and {LATEST}"],
            id="one",
        ),
        pytest.param(
            view(timed(-4, -3, -2, -0.5, missed="skip"), last_tick=tick(-4)),
            [f"2 ticks from 2024-05-01 11:57:00Z to 2024-05-01 11:58:00Z made no run: {IDLE}, and {SKIP}"],
            id="several",
        ),
        pytest.param(
            view(MINUTELY, last_tick=tick(-MOST - 2)),
            [f"more than {MOST} ticks from 2024-05-01 10:19:00Z on made no run: {IDLE}, and {LATEST}"],
            id="too many to count",
        ),
        pytest.param(view(timed(-4, -3, -2, missed="all"), last_tick=tick(-4)), [], id="each gets a run"),
        pytest.param(view(timed(-4, -3, -2, missed="latest")), [], id="the first run of a DAG has missed none"),
        pytest.param(view(timed(-4, -3, missed="latest"), last_tick=tick(-4)), [], id="none between"),
        pytest.param(
            view(timed(-4, -3, -2, missed="latest"), last_tick=tick(-4), run_dates=frozenset({at(-3)})), [], id="a user ran it"
        ),
    ],
)
def test_a_tick_that_a_later_one_passes_over_leaves_a_note(dag: DagView, said: list[str]) -> None:
    assert notes(dag) == said


@pytest.mark.parametrize("running", [1, 2])
def test_after_the_end_of_a_run_the_limit_is_named(running: int) -> None:
    dag = view(timed(-4, -3, -2, missed="latest", limit=1), last_tick=tick(-4), running=running)

    effects = schedule_after_ends(dag, [RunEnd(RunState.SUCCESS)] * running, NOW)

    reasons = [effect.reason for effect in effects if isinstance(effect, NoteSchedule)]
    assert reasons == [f"{ONE}: {FULL}, and {LATEST}"]


def test_a_tick_that_needs_data_is_missed_like_any_other() -> None:
    both = graph("t", schedule=A, timetable=Cron(("* * * * *",)), together=True)
    dag = dag_view(both, pending=(event(9),), timed_run_ids=(201, 202), last_tick=tick(-3))

    assert [reason.partition(" made")[0] for reason in notes(dag)] == [
        "2 ticks from 2024-05-01 11:58:00Z to 2024-05-01 11:59:00Z"
    ]
