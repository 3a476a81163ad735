"""Properties of the state machine: for any DAG, outcomes and order, a run advances as the oracle says."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from random import Random
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.shapes import NOW, graph, task
from tests.unit.handlers.run_oracle import ENDED, GOING, NONE, REMOVED, Reading
from tests.unit.handlers.simulated_run import ACTIVE, READY, End, SimulatedRun, state_of
from tidegate.handlers.tasks.advance import Advance, advance
from tidegate.handlers.tasks.affected import affected_tasks
from tidegate.handlers.tasks.attempt_end import AttemptEnd
from tidegate.schemas.dag import CommandTask, TaskSpec, TriggerRule
from tidegate.schemas.graph import element_of
from tidegate.schemas.state import RUN_ENDED, TASK_MOVES, RunState, TaskState
from tidegate.schemas.view import Instance

SIZES = st.integers(0, 9)
CHANCES = st.randoms(use_true_random=True)
RETURNED: Sequence[Any] = ([], [1], [1, 2], [1, 2, 3], None, "no list")
RULES = [*TriggerRule, *(len(TriggerRule) * [TriggerRule.ALL_SUCCESS])]
LATER = NOW + timedelta(days=1)


def tasks_of(size: int, chance: Random) -> tuple[TaskSpec, ...]:
    """Tasks with any rules and kinds; some are teardowns, mapped, absent from the run, or wait for the previous run."""
    return tuple(task_of(position, chance) for position in range(size))


def task_of(position: int, chance: Random) -> TaskSpec:
    upstream = [f"t{above}" for above in range(position) if chance.random() < 0.35]
    over = chance.choice(upstream) if upstream and chance.random() < 0.25 else None
    setups = tuple(chance.sample(upstream, chance.randint(0, len(upstream)))) if chance.random() < 0.2 else ()
    return task(
        f"t{position}{chance.choice(('', '', '*1', '*2', '' if over else '!'))}:{chance.choice(RULES)} < {' '.join(upstream)}",
        teardown_of=setups,
        on_failure_fail_run=chance.random() < 0.3,
        depends_on_past=chance.random() < 0.1,
        start_date=LATER if chance.random() < 0.1 else None,
        over=over,
    )


class Life:
    """A run in progress with its oracle. `before` are the tries before the last clear, by task."""

    def __init__(self, tasks: Sequence[TaskSpec], chance: Random) -> None:
        self.chance = chance
        self.world = SimulatedRun(graph(*tasks), waits=chance.random() < 0.5, logical_date=NOW)
        self.world.returns = {t.task_id: chance.choice(RETURNED) for t in tasks if isinstance(t, CommandTask) and not t.over}
        self.reading = Reading(tasks, self.world.returns, {each.task_id for each in tasks if each.start_date})
        self.before: Counter[str] = Counter()
        self.was_cleared = False
        self.past: dict[str, TaskState] = dict.fromkeys(self.reading.held, TaskState.RUNNING)

    def play(self) -> None:
        """Run to the end: admit, start, end and retry in any order and in batches of any size."""
        self.check()
        while going := self.world.all_in((*READY, *ACTIVE)) or sorted(self.reading.held):
            if self.reading.held and self.chance.random() < 0.3:
                self.release()
            chosen = self.chance.sample(going, self.chance.randint(1, len(going)))
            self.go_on([task_id for task_id in chosen if self.world.states()[task_id] in (*READY, *ACTIVE)])
            self.check()

    def release(self) -> None:
        held = sorted(self.reading.held)
        freed = self.chance.sample(held, self.chance.randint(1, len(held)))
        self.past |= dict.fromkeys(freed, self.chance.choice((TaskState.SUCCESS, TaskState.SKIPPED)))
        if self.world.run.state not in RUN_ENDED:
            self.world.reconsider(self.past)
        self.reading.release(freed)

    def go_on(self, chosen: Sequence[str]) -> None:
        world, states = self.world, self.world.states()
        if retried := [task_id for task_id in chosen if states[task_id] is TaskState.UP_FOR_RETRY]:
            world.retry(*retried)
        if ready := [task_id for task_id in chosen if states[task_id] is TaskState.SCHEDULED]:
            world.admit(*ready)
        if started := [t for t in chosen if states[t] is TaskState.QUEUED and self.chance.random() < 0.5]:
            world.accept(*started)
        elif ends := {task_id: self.end_of(task_id) for task_id in chosen if states[task_id] in ACTIVE}:
            self.finish(ends)

    def end_of(self, task_id: str) -> End:
        kind = self.chance.random()
        if kind < 0.75:
            return kind < 0.5
        if kind < 0.85:
            return TaskState.SKIPPED
        below = self.reading.below(task_id)
        chosen = self.chance.sample(below, self.chance.randint(0, len(below)))
        return (*chosen, "t0") if kind > 0.98 else tuple(chosen)

    def finish(self, ends: Mapping[str, End]) -> None:
        finishes = [self.world.finish_of(task_id, end) for task_id, end in ends.items()]
        check_step(self.world, finishes, self.world.lengths() | self.lengths_of(ends))
        self.reading.take({task_id: (self.tries(task_id) - self.before[task_id], end) for task_id, end in ends.items()})
        self.world.finish(**ends)
        born = {index for index in self.world.touched if element_of(index) is not None}
        assert self.world.touched - born <= affected_tasks(self.world.graph, finishes)

    def lengths_of(self, ends: Mapping[str, End]) -> dict[int, int]:
        """The lengths of the lists that these ends return."""
        lists = {t: self.world.returns.get(t) for t, end in ends.items() if state_of(end) is TaskState.SUCCESS}
        return {self.world.index[task_id]: len(found) for task_id, found in lists.items() if isinstance(found, list)}

    def tries(self, task_id: str) -> int:
        return self.world.tasks[self.world.index[task_id]].try_number

    def seen(self, index: int) -> TaskState:
        """A state as the oracle has it."""
        found = self.world.tasks[index]
        if found.state is NONE:
            return GOING if found.elements else NONE
        return found.state if found.state in (*ENDED, REMOVED) else GOING

    def check(self) -> None:
        self.world.check(decided=not self.was_cleared)
        found = {label: self.seen(index) for label, index in self.world.index.items()}
        elements = {f"{t}[{n}]": s for t, of in self.reading.elements.items() for n, s in enumerate(of)}
        assert {label: state for label, state in found.items() if state is not REMOVED} == {
            label: state for label, state in (self.reading.states | elements).items() if state is not REMOVED
        }
        assert (self.world.run.state is RunState.RUNNING) == bool(self.world.run.unfinished)


def check_step(world: SimulatedRun, finishes: Sequence[AttemptEnd], lengths: Mapping[int, int]) -> None:
    """The affected tasks suffice, and the order within a batch does not matter."""
    within = affected_tasks(world.graph, finishes)
    whole = advance(world.graph, world.tasks, finishes, NOW, run="r", lengths=lengths)

    part = advance(world.graph, {index: world.tasks[index] for index in within}, finishes, NOW, run="r", lengths=lengths)
    reverse = advance(world.graph, world.tasks, finishes[::-1], NOW, run="r", lengths=lengths)

    assert part == whole
    assert outcome(reverse) == outcome(whole)


def outcome(step: Advance) -> tuple[list[Instance], int, int]:
    """Without reasons: of several tasks that skip another one, the first in the batch is the reason."""
    changed = [msgspec.structs.replace(instance, reason=None) for instance in step.changed]
    return sorted(changed, key=lambda instance: instance.index), step.ended, step.failed_leaves


def life(size: int, chance: Random) -> Life:
    lived = Life(tasks_of(size, chance), chance)
    lived.play()
    return lived


@settings(max_examples=400, deadline=None)
@given(size=SIZES, chance=CHANCES)
def test_every_task_ends_as_the_oracle_says_in_any_order(size: int, chance: Random) -> None:
    lived = life(size, chance)

    assert set(lived.world.states().values()) <= {*ENDED, REMOVED}
    assert lived.world.run.state is (RunState.FAILED if lived.reading.fails() else RunState.SUCCESS)


@settings(max_examples=200, deadline=None)
@given(size=SIZES, chance=CHANCES)
def test_every_published_move_is_legal_and_numbered_without_a_gap(size: int, chance: Random) -> None:
    world = life(size, chance).world

    before = dict.fromkeys(world.index, TaskState.NONE)
    for event in world.published:
        after = TaskState(event.state)
        assert (before[event.label], after) in TASK_MOVES
        before[event.label] = after
    assert [event.seq for event in world.published] == list(range(1, len(world.published) + 1))
    assert [event.seq for event in world.journal] == list(range(1, len(world.journal) + 1))


@settings(max_examples=200, deadline=None)
@given(size=SIZES, chance=CHANCES)
def test_a_run_ends_exactly_once(size: int, chance: Random) -> None:
    world = life(size, chance).world

    states = [RunState(event.state) for event in world.journal]
    assert states == [RunState.QUEUED, RunState.RUNNING, world.run.state]
    assert world.run.state in RUN_ENDED


@settings(max_examples=200, deadline=None)
@given(size=SIZES, chance=CHANCES)
def test_the_tasks_affected_by_a_batch_are_those_of_its_ends(size: int, chance: Random) -> None:
    tasks = tasks_of(size, chance)
    lived = Life(tasks, chance)
    ends = [finish_of(index, lived) for index in range(size) if chance.random() < 0.5]
    chance.shuffle(ends)

    together = affected_tasks(lived.world.graph, ends)

    assert together == {index for end in ends for index in affected_tasks(lived.world.graph, [end])}


def finish_of(index: int, lived: Life) -> AttemptEnd:
    finish = lived.world.finish_of(f"t{index}", lived.end_of(f"t{index}"))
    return msgspec.structs.replace(finish, try_number=lived.chance.randint(1, 3))


@settings(max_examples=200, deadline=None)
@given(size=SIZES, chance=CHANCES)
def test_a_failed_run_has_ended_with_correct_counters(size: int, chance: Random) -> None:
    lived = Life(tasks_of(size, chance), chance)
    ready = lived.world.all_in(READY)
    lived.go_on(chance.sample(ready, chance.randint(0, len(ready))))
    lived.go_on(lived.world.all_in(ACTIVE))
    over = lived.world.run.state in RUN_ENDED

    lived.world.reconsider(stop="enough")

    lived.world.check_run()
    assert lived.world.run.unfinished == 0
    assert over or lived.world.run.state is RunState.FAILED
