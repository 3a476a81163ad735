"""What the checker of the storm over limits makes of a journal, told in a few commits."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from tests.storms.limits.journal import Commit, PoolChange, Task, TaskMove
from tests.storms.limits.ledger import SLOTS, Ledger
from tests.storms.limits.replay import BROTHERS, FAIR, READY_LATER, ROOM_LATER, UNEXPLAINED, Inversions, admission
from tests.storms.limits.waits import AT_WORK_S, STARTED_S, Idle, PoolTurns, Turns, at_work

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
FAIR_AFTER_S = 10.0


def at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


class Journal:
    """One pool `p` of some slots, and what becomes of tasks in it; commits are numbered from 1, one second after the other.

    `lives` are the seconds in which processes of daemons began and ended.
    """

    def __init__(self, slots: int = 9, parallelism: int = 99, lives: Sequence[tuple[float, float]] = ()) -> None:
        self.ledger = Ledger(parallelism)
        self.inversions = Inversions(self.ledger, FAIR_AFTER_S)
        self.turns = Turns(self.ledger, FAIR_AFTER_S)
        self.pool_turns = PoolTurns(self.ledger, (at(begin) for begin, _ in lives))
        self.idle = Idle(self.ledger, [(at(begin), at(end)) for begin, end in lives])
        self.seq = 0
        self.admitted = 0
        self.write((), pools=[PoolChange("p", slots, 0), PoolChange("q", slots, 0)])

    def write(self, tasks: Sequence[TaskMove], *, looked: int | None = None, pools: Sequence[PoolChange] = ()) -> None:
        self.seq += 1
        runs = [(move.task.key[0], "running") for move in tasks]
        looked_at = None if looked is None else at(self.seq)
        commit = Commit(self.seq, at(self.seq), looked, looked_at, tasks, runs, pools)
        if (seen := admission(commit, self.ledger)) is not None:
            for counter in (self.inversions, self.turns, self.pool_turns):
                counter.see(seen)
        self.ledger.apply(commit)
        self.idle.see(commit)

    def wait(self, *tasks: Task, since: float = 0.0) -> None:
        self.write([move(task, "none", "scheduled", since) for task in tasks])

    def admit(self, *tasks: Task, looked: int | None = None, since: float = 0.0, counted: int = 0) -> None:
        self.admitted += counted
        pools = [PoolChange("p", self.ledger.now["pool", "p"], self.admitted)] if counted else []
        seen = self.seq if looked is None else looked
        self.write([move(task, "scheduled", "queued", since) for task in tasks], looked=seen, pools=pools)

    def end(self, *tasks: Task) -> None:
        self.write([move(task, "queued", "success", 0.0) for task in tasks])


def task(weight: int, run: int, *, slots: int = 1, pool: str = "p", room: int = 9) -> Task:
    """Its index is what it weighs."""
    return Task((run, weight), "d", f"t{weight}", pool, slots, None, None, room, "manual")


def move(task: Task, was: str, state: str, since: float) -> TaskMove:
    return TaskMove(task, (-task.key[1], BEGIN, *task.key), at(since), was, state)


def of(journal: Journal) -> dict[str, int]:
    return dict(journal.inversions.passed_over)


def test_a_lighter_task_that_goes_first_without_a_reason_is_an_inversion() -> None:
    journal = Journal()
    journal.wait(task(5, 1), task(1, 2))

    journal.admit(task(1, 2))

    assert of(journal) == {UNEXPLAINED: 1}
    assert len(journal.inversions.unexplained) == 1


def test_the_first_in_the_order_passes_over_no_task() -> None:
    journal = Journal()
    journal.wait(task(5, 1), task(1, 2))

    journal.admit(task(5, 1))

    assert of(journal) == {}


def test_a_task_that_became_ready_after_the_look_could_not_be_seen() -> None:
    journal = Journal()
    journal.wait(task(1, 2))
    journal.wait(task(5, 1))

    journal.admit(task(1, 2), looked=journal.seq - 1)

    assert of(journal) == {READY_LATER: 1}


def test_a_task_that_was_given_room_after_the_look_could_not_be_seen() -> None:
    journal = Journal(slots=4)
    journal.wait(task(5, 1, slots=3), task(1, 2), task(9, 3, slots=2))
    journal.admit(task(9, 3, slots=2))
    journal.end(task(9, 3, slots=2))

    journal.admit(task(1, 2), looked=journal.seq - 1)

    assert of(journal) == {ROOM_LATER: 1}


@pytest.mark.parametrize(
    ("slots", "parallelism", "heavy", "reason"),
    [
        pytest.param(2, 99, task(5, 1, slots=3), SLOTS, id="too few slots"),
        pytest.param(9, 1, task(5, 1, room=0), "max_active_tasks", id="no room in its run"),
    ],
)
def test_a_task_that_does_not_fit_is_counted_by_what_holds_it_up(slots: int, parallelism: int, heavy: Task, reason: str) -> None:
    journal = Journal(slots, parallelism)
    journal.wait(heavy, task(1, 2))

    journal.admit(task(1, 2))

    assert of(journal) == {reason: 1}


def test_the_turn_of_a_task_that_waited_long_is_no_inversion_and_only_one() -> None:
    journal = Journal()
    journal.wait(task(5, 1), task(1, 2), task(2, 3), since=-60)

    journal.admit(task(1, 2), since=-60, counted=4)
    journal.admit(task(2, 3), since=-60, counted=1)

    assert of(journal) == {FAIR: 2, UNEXPLAINED: 1}


def test_of_equally_old_ones_any_may_have_had_the_turn() -> None:
    """One of the run of who was passed over took the room of it."""
    journal = Journal()
    brother = task(1, 1, room=1)
    journal.wait(task(5, 1, room=1), brother, task(2, 2, slots=2), task(9, 3), since=-60)

    journal.admit(task(9, 3), brother, task(2, 2, slots=2), since=-60, counted=4)

    assert UNEXPLAINED not in of(journal)


def test_others_of_its_run_may_be_looked_at_for_all_its_room() -> None:
    journal = Journal(slots=3)
    first = Task((1, 5), "d", "t", "p", 2, None, None, 1, "manual")
    second = Task((1, 6), "d", "u", "p", 1, None, None, 1, "manual")
    moves = [TaskMove(each, (-5, BEGIN, *each.key), BEGIN, "none", "scheduled") for each in (first, second)]
    journal.write([*moves, move(task(9, 2, slots=2), "none", "scheduled", 0), move(task(1, 3, pool="p"), "none", "scheduled", 0)])

    journal.admit(task(9, 2, slots=2), task(1, 3))

    assert of(journal) == {SLOTS: 1, BROTHERS: 1}


def test_an_eligible_starving_task_is_not_passed_over_four_times() -> None:
    journal = Journal()
    young = [task(9, run) for run in range(2, 6)]
    journal.wait(task(1, 1), since=-60)

    for number, each in enumerate(young):
        journal.wait(each, since=journal.seq)
        journal.admit(each, since=journal.seq)
        assert bool(journal.turns.unfair) == (number == 3)


def test_a_pool_waits_for_its_turn_while_others_fill_the_installation() -> None:
    journal = Journal(parallelism=1)
    journal.wait(task(1, 1, pool="q"), *(task(9, run) for run in range(2, 5)))

    for run in range(2, 5):
        journal.admit(task(9, run))
        journal.end(task(9, run))

    assert journal.pool_turns.longest == {"q": 3}
    assert journal.pool_turns.unfair == []


@pytest.mark.parametrize(("starts", "allowed"), [((), 4), ((0, 0, 0), 5), ((0, 0, 0, 5), 6), ((0, 0, 0, 60), 5)])
def test_each_further_start_of_a_daemon_begins_a_round(starts: Sequence[float], allowed: int) -> None:
    journal = Journal(parallelism=1, lives=[(begin, 99.0) for begin in starts])
    runs = range(2, 3 + allowed)
    journal.wait(task(1, 1, pool="q"), *(task(9, run) for run in runs))

    for run in runs:
        assert journal.pool_turns.unfair == []
        journal.admit(task(9, run))
        journal.end(task(9, run))

    assert journal.pool_turns.unfair == [
        f"q waited for room while other pools were given something {allowed + 1} times, and not {allowed}"
    ]


def test_a_task_waits_beside_free_slots_while_a_daemon_is_up() -> None:
    journal = Journal(slots=1, lives=[(0.0, 60.0)])
    journal.wait(task(1, 1))

    while journal.seq < 15:
        journal.write(())

    assert journal.idle.longest_s["p"] == 15 - STARTED_S


def test_a_time_without_a_daemon_does_not_count() -> None:
    journal = Journal(slots=1, lives=[(0.0, 14.0), (1.0, STARTED_S), (40.0, 60.0)])
    journal.wait(task(1, 1))

    while journal.seq < 52:
        journal.write(())

    assert journal.idle.longest_s["p"] == 4.0 + 2.0


def test_a_young_daemon_is_at_work_when_it_moves_tasks() -> None:
    journal = Journal(slots=1)
    journal.wait(task(1, 1))

    journal.write(())
    for run in range(2, 6):
        journal.end(task(1, run, pool="q"))

    assert journal.idle.longest_s["p"] == 4 * AT_WORK_S


def test_daemons_side_by_side_are_at_work_once() -> None:
    lives = [(at(0), at(30)), (at(5), at(40)), (at(50), at(52)), (at(60), at(75))]

    assert at_work(lives) == [(at(10), at(40)), (at(70), at(75))]
