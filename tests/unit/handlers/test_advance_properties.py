"""Any DAG, any outcomes, any order: a run goes where a plain reading of the rules says."""

from collections.abc import Mapping
from random import Random

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.shapes import graph, task
from tests.unit.handlers.world import ACTIVE, READY, World
from tidegate.handlers.advance import Finish, reach
from tidegate.schemas.dag import EmptyTask, TaskSpec
from tidegate.schemas.state import TASK_ENDED, TASK_MOVES, RunState, TaskState

SIZES = st.integers(0, 9)
CHANCES = st.randoms(use_true_random=True)


class Plan(msgspec.Struct, frozen=True):
    """A DAG and what happens in it: for each task, which of its attempts succeed."""

    tasks: tuple[TaskSpec, ...]
    outcomes: Mapping[str, tuple[bool, ...]]


def plan_of(size: int, chance: Random) -> Plan:
    tasks: list[TaskSpec] = []
    outcomes: dict[str, tuple[bool, ...]] = {}
    for position in range(size):
        upstream = [f"t{above}" for above in range(position) if chance.random() < 0.35]
        kind = chance.choice(("", "", "*1", "*2", "!"))
        tasks.append(task(f"t{position}{kind} < {' '.join(upstream)}"))
        outcomes[f"t{position}"] = tuple(chance.random() < 0.7 for _ in range(3))
    return Plan(tuple(tasks), outcomes)


def oracle(plan: Plan) -> dict[str, TaskState]:
    """The end state of every task, read off the rules one by one."""
    states: dict[str, TaskState] = {}
    for each in plan.tasks:
        if any(states[upstream] is not TaskState.SUCCESS for upstream in each.upstream):
            states[each.task_id] = TaskState.UPSTREAM_FAILED
        elif isinstance(each, EmptyTask) or any(plan.outcomes[each.task_id][: each.retries + 1]):
            states[each.task_id] = TaskState.SUCCESS
        else:
            states[each.task_id] = TaskState.FAILED
    return states


def play(plan: Plan, chance: Random) -> World:
    """Live the run to its end: admit, start and end attempts in any order and in batches of any size."""
    world = World(graph(*plan.tasks), waits=chance.random() < 0.5)
    check(world)
    while waiting := world.all_in((*READY, *ACTIVE)):
        chosen = chance.sample(waiting, chance.randint(1, len(waiting)))
        states = world.states()
        if ready := [task_id for task_id in chosen if states[task_id] in READY]:
            world.admit(*ready)
        if started := [t for t in chosen if states[t] is TaskState.QUEUED and chance.random() < 0.5]:
            world.accept(*started)
        elif active := {t: succeeds(world, plan, t) for t in chosen if states[t] in ACTIVE}:
            within = reach(world.graph, [Finish(world.index[t], tries(world, t), ok) for t, ok in active.items()])
            world.finish(**active)
            assert world.touched <= within
        check(world)
    return world


def tries(world: World, task_id: str) -> int:
    return world.tasks[world.index[task_id]].try_number


def succeeds(world: World, plan: Plan, task_id: str) -> bool:
    return plan.outcomes[task_id][tries(world, task_id) - 1]


def check(world: World) -> None:
    """The counters of the run are what its tasks say."""
    states = world.states()
    leaves = [node.task.task_id for node in world.graph.nodes if node.leaf]
    assert world.run.unfinished == sum(state not in TASK_ENDED for state in states.values())
    assert world.run.failed_leaves == sum(states[leaf] in TASK_ENDED - {TaskState.SUCCESS} for leaf in leaves)
    assert (world.run.state is RunState.RUNNING) == bool(world.run.unfinished)
    assert world.run.task_seq == len(world.published)
    assert world.run.state_seq == len(world.journal)


@settings(max_examples=200, deadline=None)
@given(size=SIZES, chance=CHANCES)
def test_every_task_ends_as_the_rules_say_whatever_the_order(size: int, chance: Random) -> None:
    plan = plan_of(size, chance)

    world = play(plan, chance)

    expected = oracle(plan)
    leaves = [node.task.task_id for node in world.graph.nodes if node.leaf]
    assert world.states() == expected
    assert world.run.state == (RunState.SUCCESS if all(expected[t] is TaskState.SUCCESS for t in leaves) else RunState.FAILED)


@settings(max_examples=200, deadline=None)
@given(size=SIZES, chance=CHANCES)
def test_every_published_move_is_legal_and_numbered_without_a_gap(size: int, chance: Random) -> None:
    world = play(plan_of(size, chance), chance)

    before = dict.fromkeys(world.index, TaskState.NONE)
    for event in world.published:
        after = TaskState(event.state)
        assert (before[event.task_id], after) in TASK_MOVES
        before[event.task_id] = after
    assert [event.seq for event in world.published] == list(range(1, len(world.published) + 1))
    assert [event.seq for event in world.journal] == list(range(1, len(world.journal) + 1))


@settings(max_examples=200, deadline=None)
@given(size=SIZES, chance=CHANCES)
def test_what_ends_together_reaches_what_each_end_reaches(size: int, chance: Random) -> None:
    dag = graph(*plan_of(size, chance).tasks)
    ends = [Finish(index, chance.randint(1, 3), chance.random() < 0.5) for index in range(size) if chance.random() < 0.5]
    chance.shuffle(ends)

    together = reach(dag, ends)

    assert together == {index for end in ends for index in reach(dag, [end])}
