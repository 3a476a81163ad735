"""Tasks wait for slots of a pool: admit those that fit, and record the intent to submit each.

Order: by weight, across all DAGs; then older runs first, then as the tasks stand in their DAG. What does not fit is passed over
and holds up nobody. So that no one starves, every fourth turn is that of who has waited longest, once that is longer than
`fair_after_s`; if only slots are missing, those that come free are kept for it.
"""

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from uuid import NAMESPACE_OID, UUID, uuid5

from tidegate.handlers.admission.capacity import Room, State
from tidegate.handlers.admission.starvation import SPARE, choose_elders
from tidegate.handlers.submission_accepted import renumbered
from tidegate.handlers.tasks.advance import Move
from tidegate.schemas.dag import BACKENDS, kind_of
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.submission import InsertSubmission
from tidegate.schemas.effect.task import CountAdmitted, LookAgain, MoveTask
from tidegate.schemas.message import Message, TasksReady
from tidegate.schemas.queries import dags, pools, runs, tasks, versions
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.tasks import Candidate, Key
from tidegate.schemas.state import TaskState
from tidegate.schemas.view import MANY, PoolView, RunView, WaitingTask

FAIR_EVERY = 4
FURTHER = 8
"""By how much further it is looked where too few of them may go together."""


async def load(db: Db, messages: Sequence[Message[TasksReady]]) -> State:
    (ready,) = (message.body for message in messages)
    seen = await pools.look(db, ready.pool, ready.parallelism)
    if not seen.free:
        return State(db.now, seen)
    wanted = min(seen.free, ready.limit)
    first = await tasks.ready(db, ready.pool, wanted, MANY if seen.open is None else seen.open)
    old = await _longest(db, ready, seen, wanted) if first else []
    candidates = {*first, *old}
    if together := {candidate.limited_in for candidate in candidates if candidate.limited_in}:
        await dags.hold(db, together)  # runs of one DAG are counted together only while nobody else admits to them
    locked = await runs.lock(db, {candidate.dag_run_id for candidate in candidates})
    pool = await pools.lock(db, ready.pool, ready.parallelism)
    return await _state(db, pool, _keys(first), _keys(old), locked, cut=len(first) >= wanted)


async def look(db: Db, ready: TasksReady, keys: Sequence[Key]) -> State:
    """What an admission would find that had these candidates in this order: for who only looks, nothing is locked."""
    pool = await pools.look(db, ready.pool, ready.parallelism)
    old = _keys(await _longest(db, ready, pool, len(keys)))
    seen = await runs.views(db, {dag_run_id for dag_run_id, _ in {*keys, *old}})
    return await _state(db, pool, keys, old, seen, cut=False)


async def _longest(db: Db, ready: TasksReady, pool: PoolView, wanted: int) -> Sequence[Candidate]:
    """Those that have waited for long, where anybody has."""
    long_ago, slots = db.now - timedelta(seconds=ready.fair_after_s), MANY if pool.slots is None else pool.slots
    if pool.waits_since is None or pool.waits_since >= long_ago:
        return []
    asked = most = wanted + SPARE
    while True:
        found = await tasks.longest_waiting(db, ready.pool, long_ago, asked, slots)
        chosen = choose_elders(found, most)
        if chosen.together == most or len(found) < asked:
            return chosen.candidates
        asked *= FURTHER


def _keys(candidates: Sequence[Candidate]) -> list[Key]:
    return [candidate.key for candidate in candidates]


async def _state(
    db: Db, pool: PoolView, keys: Sequence[Key], old: Sequence[Key], found_runs: Mapping[int, RunView], *, cut: bool
) -> State:
    found = await tasks.waiting(db, {key for key in (*keys, *old) if key[0] in found_runs})
    limited = {task.task_id for task in found.values() if task.per_run or task.per_dag}
    return State(
        now=db.now,
        pool=pool,
        waiting=tuple(found[key] for key in keys if key in found),
        longest=tuple(found[key] for key in old if key in found),
        cut=cut,
        limited=tuple(await tasks.limited_activity(db, limited)) if limited else (),
        runs=found_runs,
        graphs=await versions.graphs(db, {run.version_id for run in found_runs.values()}),
    )


def decide(_messages: Sequence[Message[TasksReady]], state: State) -> Iterator[Effect]:
    admitted: dict[int, list[WaitingTask]] = defaultdict(list)
    room = Room(state)
    for task in choose(room):
        admitted[task.dag_run_id].append(task)
    for dag_run_id, of_run in admitted.items():
        yield from _admit(state.runs[dag_run_id], of_run, state)
    if admitted and state.longest:
        yield CountAdmitted(state.pool.name, sum(map(len, admitted.values())))
    if admitted and state.cut and room.is_left:
        yield LookAgain(state.pool.name)


def choose(room: Room) -> Iterator[WaitingTask]:
    """Those that get their slots, in order."""
    queue, longest = deque(room.state.waiting), deque(room.state.longest)
    number = room.state.pool.admitted
    while True:
        number += 1
        old = room.next_but_for_slots(longest) if longest and number % FAIR_EVERY == 0 else None
        if old is not None and room.lacking(old) is not None:
            room.keep()
            return
        task = old or room.next_of(queue)
        if task is None:
            return
        room.give(task)
        yield task


def submission_id(run: RunView, label: str, try_number: int) -> UUID:
    """The stamp of an attempt: the same however often it is computed, and no other attempt's.

    The run's number comes before the digest, in a UUID of version 8 (RFC 9562, 5.8): what is inserted at one time lies together
    in the index, however many attempts are recorded there.
    """
    digest = uuid5(NAMESPACE_OID, f"tidegate/{run.id}/{run.dag_id}/{run.run_id}/{label}/{try_number}").int
    return UUID(int=run.id << 80 | 8 << 76 | digest & ((1 << 76) - 1))


def _admit(run: RunView, admitted: Sequence[WaitingTask], state: State) -> Iterator[Effect]:
    graph = state.graphs[run.version_id]
    for task in admitted:
        spec = graph.node(task.task_index).task
        stamp = submission_id(run, graph.label(task.task_index), task.try_number + 1)
        yield MoveTask(run.id, task.task_index, TaskState.QUEUED, task.try_number + 1)
        yield InsertSubmission(stamp, run.id, task.task_index, task.try_number + 1, BACKENDS[kind_of(spec)])
    moves = tuple(Move(task.task_index, TaskState.QUEUED, task.try_number + 1) for task in admitted)
    yield from renumbered(run, moves, graph, state.now, active=len(admitted))
