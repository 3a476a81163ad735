"""A run is looked at as a whole: after it was cleared, when the run before it went on, or because it is to stop.

Everything else that happens to a run touches only what it must; this is the one pass over all its tasks.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

import msgspec

from tidegate.handlers.load_dags import read_dags
from tidegate.handlers.runs.create import run_ended, tasks_moved
from tidegate.handlers.runs.rows import insert_task, update_task
from tidegate.handlers.runs.terminate import stop
from tidegate.handlers.scheduling.next_runs import settle_after
from tidegate.handlers.scheduling.read_plan import ReadReason
from tidegate.handlers.tasks.advance import NO_LISTS, Advance, judge_again
from tidegate.handlers.tasks.previous_run import Past, allows, pasts
from tidegate.handlers.tasks.upstream_counts import count_anew, upstream_of
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.run import ReconsiderAfter, UpdateRun
from tidegate.schemas.graph import Graph, element_of
from tidegate.schemas.message import Message, RunReconsidered
from tidegate.schemas.queries import dags, runs, tasks, versions
from tidegate.schemas.queries.db import Db
from tidegate.schemas.state import RUN_ENDED, TASK_ENDED, RunState, TaskState, run_state
from tidegate.schemas.view import DagView, Instance, RunView


class State(msgspec.Struct, frozen=True):
    """The runs with all their tasks, under the locks of their DAGs. `stops`: why a run is to stop, by its id.

    `lengths`: by run and task, how many elements the list has that it returned, where others are mapped over it.
    """

    now: datetime
    dags: tuple[DagView, ...]
    runs: Mapping[int, RunView]
    graphs: Mapping[int, Graph]
    tasks: Mapping[int, Sequence[Instance]]
    pasts: Mapping[int, Past]
    stops: Mapping[int, str]
    lengths: Mapping[int, Mapping[int, int]] = {}


async def load(db: Db, messages: Sequence[Message[RunReconsidered]]) -> State:
    asked = [message.body.dag_run_id for message in messages]
    held = await dags.lock(db, await runs.dags_of(db, asked))
    locked = await runs.lock(db, asked)
    reasons = await runs.taken_up(db, asked)
    graphs = await versions.graphs(db, {run.version_id for run in locked.values()})
    may_end = Counter(run.dag_id for run in locked.values() if run.state is RunState.RUNNING)
    instances: dict[int, list[Instance]] = defaultdict(list)
    for (dag_run_id, _), instance in (await tasks.of_runs(db, locked)).items():
        instances[dag_run_id].append(instance)
    return State(
        now=db.now,
        dags=await read_dags(db, held, ReadReason(ending_runs=may_end)),
        runs={id_: run for id_, run in locked.items() if id_ in reasons},
        graphs=graphs,
        tasks=instances,
        pasts=await pasts(db, [run.id for run in locked.values() if graphs[run.version_id].sequential]),
        stops={id_: reason for id_, reason in reasons.items() if reason is not None},
        lengths=await _lengths(db, {id_: graphs[run.version_id] for id_, run in locked.items()}),
    )


async def _lengths(db: Db, of_run: Mapping[int, Graph]) -> Mapping[int, Mapping[int, int]]:
    over = {(id_, node.over) for id_, graph in of_run.items() if graph.mapped for node in graph.nodes}
    found: dict[int, dict[int, int]] = defaultdict(dict)
    for (id_, index), length in (await tasks.lengths(db, [(id_, index) for id_, index in over if index is not None])).items():
        found[id_][index] = length
    return found


def decide(_messages: Sequence[Message[RunReconsidered]], state: State) -> Iterator[Effect]:
    ended: dict[str, list[RunState]] = defaultdict(list)
    for run in state.runs.values():
        if run.state is not RunState.RUNNING:
            continue
        graph, instances = state.graphs[run.version_id], state.tasks.get(run.id, ())
        if reason := state.stops.get(run.id):
            yield from stop(run, graph, instances, state.now, reason=reason, working=TaskState.FAILED)
            ended[run.dag_id].append(RunState.FAILED)
        else:
            lengths = state.lengths.get(run.id, NO_LISTS)
            after, effects = reconsider(run, graph, instances, state.pasts.get(run.id), state.now, lengths)
            yield from effects
            if after in RUN_ENDED:
                ended[run.dag_id].append(after)
    for dag in state.dags:
        yield from settle_after(dag, ended[dag.graph.dag_id], state.now)


def reconsider(
    run: RunView,
    graph: Graph,
    instances: Sequence[Instance],
    past: Past | None,
    now: datetime,
    lengths: Mapping[int, int] = NO_LISTS,
) -> tuple[RunState, list[Effect]]:
    """The state the run comes to, and how."""
    released = {i.index: i for i in instances if i.waits_for_past and allows(past, graph, i.index)}
    for instance in released.values():
        instance.waits_for_past = False
    counted = _count_all_anew(graph, {instance.index: instance for instance in instances})
    step = judge_again(graph, {instance.index: instance for instance in instances}, lengths)
    after = _states(instances, step)
    unfinished = sum(state not in TASK_ENDED for index, state in after.items() if element_of(index) is None)
    failed = run.failed_leaves + step.failed_leaves
    stuck = deadlock(graph, instances, after)
    state = RunState.FAILED if stuck else run_state(unfinished, failed)
    changed = released | counted | {instance.index: instance for instance in step.touched}
    effects: list[Effect] = [insert_task(run, born, graph.node(born.index).task, now) for born in step.born]
    effects += [update_task(run, instance, now) for instance in changed.values()]
    effects += tasks_moved(run, graph, step, now)
    effects += _run_effects(run, graph, step, (state, unfinished, failed, stuck), now)
    if graph.sequential and step.ended:
        effects.append(ReconsiderAfter(run.dag_id, run.id))
    return state, effects


def _count_all_anew(graph: Graph, instances: Mapping[int, Instance]) -> dict[int, Instance]:
    """Those whose turn has not come, as far as they had counted otherwise: what is before them may have been set back."""
    changed = {}
    for index, instance in instances.items():
        if instance.state is TaskState.NONE:
            before = upstream_of(instance)
            count_anew(graph, instances, index)
            if before != upstream_of(instance):
                changed[index] = instance
    return changed


def deadlock(graph: Graph, instances: Sequence[Instance], after: Mapping[int, TaskState]) -> str:
    """What is wrong with a run in which nothing works, waits for a slot or may yet get its turn; empty when nothing is."""
    waiting = [instance for instance in instances if after[instance.index] is TaskState.NONE]
    if not waiting or any(instance.waits_for_past for instance in waiting):
        return ""
    if any(state is not TaskState.NONE and state not in TASK_ENDED for state in after.values()):
        return ""
    names = ", ".join(graph.label(instance.index) for instance in waiting)
    return f"deadlock: nothing can run any more, but these have not: {names}"


def _states(instances: Sequence[Instance], step: Advance) -> Mapping[int, TaskState]:
    return {instance.index: instance.state for instance in (*instances, *step.touched, *step.born)}


def _run_effects(
    run: RunView, graph: Graph, step: Advance, outcome: tuple[RunState, int, int, str], now: datetime
) -> Iterator[Effect]:
    state, unfinished, failed, stuck = outcome
    seq = run.task_seq + len(step.moves)
    after = UpdateRun(run.id, state, run.state_seq, seq, unfinished, failed, run.active_tasks, run.start_date)
    if state not in RUN_ENDED:
        yield after
        return
    yield msgspec.structs.replace(after, state_seq=run.state_seq + 1, end_date=now)
    yield from run_ended(run, graph, state, run.state_seq + 1, now, stuck)
