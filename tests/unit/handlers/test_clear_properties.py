"""Properties of clearing: after any clear, a run ends as if it had not run the cleared tasks before."""

from random import Random

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.shapes import NOW, dag_view, message
from tests.unit.handlers.run_oracle import GOING
from tests.unit.handlers.simulated_run import ACTIVE, READY
from tests.unit.handlers.tasks.test_advance_properties import CHANCES, Life, tasks_of
from tidegate.handlers import clear_requested
from tidegate.handlers.runs.create import promote
from tidegate.schemas.effect.submission import KillSubmissions
from tidegate.schemas.graph import parsed_label
from tidegate.schemas.message import ClearRequested
from tidegate.schemas.state import RUN_ENDED, TASK_MOVES, KillCause, RunState, TaskState

SIZES = st.integers(1, 8)


def begun(size: int, chance: Random) -> Life:
    """A run at any point of its life; none of its tasks is absent."""
    tasks = [msgspec.structs.replace(task, start_date=None) for task in tasks_of(size, chance)]
    life = Life(tasks, chance)
    for _ in range(chance.choice((0, 3, 9, 99))):
        if not (going := life.world.all_in((*READY, *ACTIVE))):
            break
        life.go_on(chance.sample(going, chance.randint(1, len(going))))
    return life


def clear(life: Life) -> None:
    """Clear any tasks. Active ones are killed, and their ends come before anything else."""
    world, chance = life.world, life.chance
    asked = ClearRequested(
        dag_id="d",
        run_id="r1",
        task_ids=tuple(chance.sample(list(world.index), chance.randint(0, min(2, len(world.index))))),
        upstream=chance.random() < 0.3,
        downstream=chance.random() < 0.7,
        only_failed=chance.random() < 0.2,
    )
    before, told, others = dict(world.tasks), len(world.published), len(world.others)
    world.apply(clear_requested.decide([message(asked)], state_of(life)))
    kills = [effect.task_index for effect in world.others[others:] if isinstance(effect, KillSubmissions)]
    moved = {event.label for event in world.published[told:] if event.state == "none"}
    unmapped = {world.graph.label(index) for index, task in before.items() if task.elements and not world.tasks[index].elements}
    assert all(world.states()[task_id] is TaskState.NONE for task_id in moved)
    single = {label for label in moved if "[" in label}
    reopened = {label for label in moved if world.tasks[world.index[label]].elements}
    for task_id, element in map(parsed_label, single):
        life.reading.elements[task_id][element or 0] = GOING
    life.reading.states |= dict.fromkeys(reopened, GOING)
    reset = sorted((moved | unmapped) - single - reopened)
    life.reading.states |= dict.fromkeys(reset, TaskState.NONE)
    patient = {task_id for task_id in reset if life.reading.tasks[task_id].depends_on_past}
    life.reading.held |= patient
    life.past |= dict.fromkeys(patient, TaskState.RUNNING)
    life.was_cleared = True
    world.check(decided=False)
    killed = [task_id for task_id, index in world.index.items() if index in kills]
    forget(life, reset)
    for task_id in (*reset, *single, *killed):
        life.before[task_id] = life.tries(task_id)
    confirm(life, killed)
    undone = [task_id for task_id in killed if task_id in life.reading.tasks]
    life.reading.states |= dict.fromkeys(undone, TaskState.NONE)
    waiting = {task_id for task_id in undone if life.reading.tasks[task_id].depends_on_past}
    life.reading.held |= waiting
    life.past |= dict.fromkeys(waiting, TaskState.RUNNING)


def forget(life: Life, reset: list[str]) -> None:
    """The instances of cleared mapped tasks; their earlier tries do not count."""
    for task_id in reset:
        for element in range(len(life.reading.elements.pop(task_id, ()))):
            life.before[f"{task_id}[{element}]"] = life.tries(f"{task_id}[{element}]")


def state_of(life: Life) -> clear_requested.State:
    world = life.world
    tasks = {index: msgspec.structs.replace(task) for index, task in world.tasks.items()}
    return clear_requested.State(NOW, dag_view(world.graph), {1: world.run}, {world.graph.version_id: world.graph}, {1: tasks})


def confirm(life: Life, killed: list[str]) -> None:
    for task_id in killed:
        attempt = life.world.attempt(task_id)
        life.world.submissions[attempt] = msgspec.structs.replace(
            life.world.submissions[attempt], kill_reason="cleared by a user", kill_cause=KillCause.CLEARED
        )
    if killed:
        life.world.finish(**dict.fromkeys(killed, False))


def go_on(life: Life) -> None:
    """Promote the run if it is queued, and reconsider it."""
    if life.world.run.state is RunState.QUEUED:
        life.world.apply(promote(life.world.run, life.world.graph, NOW))
    if life.world.run.state is RunState.RUNNING:
        life.world.reconsider(life.past)
    life.reading.settle()


@settings(max_examples=400, deadline=None)
@given(size=SIZES, chance=CHANCES)
def test_what_is_cleared_runs_again_as_the_rules_say(size: int, chance: Random) -> None:
    life = begun(size, chance)
    for _ in range(chance.randint(1, 3)):
        clear(life)
        go_on(life)

    life.play()

    assert life.world.run.state is (RunState.FAILED if life.reading.fails() else RunState.SUCCESS)


@settings(max_examples=200, deadline=None)
@given(size=SIZES, chance=CHANCES)
def test_every_move_of_a_run_that_is_cleared_is_legal(size: int, chance: Random) -> None:
    life = begun(size, chance)
    for _ in range(chance.randint(1, 3)):
        clear(life)
        go_on(life)
    life.play()

    before = dict.fromkeys(life.reading.tasks, TaskState.NONE)
    for event in life.world.published:
        if event.label not in before:
            continue  # an instance of a mapped task is set aside without a word
        after = TaskState(event.state)
        assert (before[event.label], after) in TASK_MOVES
        before[event.label] = after
    assert [event.seq for event in life.world.published] == list(range(1, len(life.world.published) + 1))
    assert [event.seq for event in life.world.journal] == list(range(1, len(life.world.journal) + 1))
    assert life.world.run.state in RUN_ENDED
