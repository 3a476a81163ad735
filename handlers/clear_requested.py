"""A user clears tasks: they run again. Earlier attempts stay in the history, and the tries are counted on.

With a cascade, a backfill takes the runs: it runs again what consumed from them, stage by stage, in the same transaction.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime

import msgspec

from tidegate.handlers.backfills.cascade import backfill_after, cycle_of, stages_of
from tidegate.handlers.backfills.rejections import NOT_POSSIBLE, no_cascade_along, overlapping
from tidegate.handlers.backfills.rerun import LockedRun, as_run_of, demands, take_run
from tidegate.handlers.load import read_dags
from tidegate.handlers.runs.change_version import change_version
from tidegate.handlers.runs.clear import clear_tasks, cleared_by
from tidegate.handlers.runs.clear_selection import has_instance, tasks_to_clear
from tidegate.handlers.runs.rejections import NO_SUCH_TASK, no_such_dag
from tidegate.handlers.scheduling.next_runs import set_wakeup
from tidegate.schemas.backfill import BackfillView
from tidegate.schemas.effect import Effect, RejectMessage
from tidegate.schemas.effect.backfill import InsertBackfill, InsertDate, UpdateBackfill
from tidegate.schemas.effect.run import AnnounceOutlets
from tidegate.schemas.graph import Graph, parsed_label
from tidegate.schemas.message import ClearRequested, Message, request_of
from tidegate.schemas.queries import backfills, dags, runs, tasks, versions
from tidegate.schemas.queries.db import Db
from tidegate.schemas.state import DateState, RunState
from tidegate.schemas.view import DagView, Instance, RunView

NOTHING_TO_CLEAR = "nothing_to_clear"
NOT_AS_SHOWN = "not_as_shown"
TOO_MANY_RUNS = "too_many_runs"
STILL_RUNNING = "still_running"

MAX_CLEARED_RUNS = 10_000
"""The most runs of a request, whether they have something to clear or not."""

MAX_CLEARED_TASKS = 100_000
"""About the most tasks of the runs of a request, unless it is one run: all are read, and written in one transaction."""


class State(msgspec.Struct, frozen=True):
    """The DAG, and the requested runs with all their tasks, locked. `too_many`: their number where they are not read.

    For a cascade, `others` are the backfills of the DAG that have not ended, and `busy` those of its runs by id; `edges` is each
    producer with each of its consumers, of which those in `refusing` allow no backfills.
    """

    now: datetime
    dag: DagView | None
    runs: Mapping[int, RunView] = {}
    graphs: Mapping[int, Graph] = {}
    tasks: Mapping[int, Mapping[int, Instance]] = {}
    too_many: int = 0
    others: tuple[BackfillView, ...] = ()
    busy: Collection[int] = ()
    edges: Sequence[tuple[str, str]] = ()
    refusing: tuple[str, ...] = ()


class Cleared(msgspec.Struct, frozen=True):
    """A run whose tasks `indices`, and instances of mapped tasks, are cleared, by the version `graph`."""

    run: RunView
    graph: Graph
    effects: Sequence[Effect]
    indices: Collection[int]

    @property
    def writing(self) -> list[str]:
        """The cleared tasks that update datasets. An instance stands for its task."""
        nodes = (self.graph.node(index) for index in self.indices)
        return list(dict.fromkeys(node.task.task_id for node in nodes if node.task.outlets))


async def load(db: Db, messages: Sequence[Message[ClearRequested]]) -> State:
    request = request_of(messages)
    locked_dags = await dags.lock(db, [request.dag_id])
    if not locked_dags:
        return State(db.now, None)
    (dag,) = await read_dags(db, locked_dags)
    found = await _runs_of(db, request)
    if len(found) > MAX_CLEARED_RUNS or len(await tasks.first_runs(db, found, MAX_CLEARED_TASKS)) < len(found):
        return State(db.now, dag, too_many=len(found))
    locked = await runs.lock(db, found)
    instances = await tasks.of_runs(db, locked)
    state = State(db.now, dag, locked, await versions.graphs(db, {run.version_id for run in locked.values()}), instances)
    return await _with_cascade(db, request.dag_id, state) if request.cascade else state


async def _runs_of(db: Db, request: ClearRequested) -> list[int]:
    if request.run_ids is not None:
        return await runs.named(db, request.dag_id, request.run_ids)
    return await runs.matching(db, request.dag_id, request.run_id, request.start, request.end)


async def _with_cascade(db: Db, dag_id: str, state: State) -> State:
    edges = await backfills.edges(db, dag_id)
    return msgspec.structs.replace(
        state,
        others=await backfills.active_of(db, dag_id),
        busy=await backfills.unended(db, {run.backfill_id for run in state.runs.values() if run.backfill_id is not None}),
        edges=edges,
        refusing=await backfills.refusing(db, {to for _, to in edges}),
    )


def decide(messages: Sequence[Message[ClearRequested]], state: State) -> Iterator[Effect]:
    request = request_of(messages)
    if state.dag is None:
        yield no_such_dag(request.dag_id)
        return
    if state.too_many:
        yield _too_many(state.too_many)
        return
    if unknown := unknown_task(request, state.dag.graph, state):
        yield RejectMessage(NO_SUCH_TASK, f"DAG {request.dag_id!r} has no task {unknown!r} in these runs")
        return
    started = [run for run in state.runs.values() if state.tasks.get(run.id)]
    backfill = _cascade(request, state.dag, started, state)
    found = (_clear(run, request, state.dag.graph, state, backfill) for run in started)
    cleared = {each.run.run_id: each for each in found if each.indices}
    refusal = _rejection(request, state, state.dag.graph, cleared) or next(_unreachable(request, state, cleared, backfill), None)
    if refusal:
        yield refusal
        return
    for each in cleared.values():
        yield from each.effects
    if request.announce:
        yield from (_announce(each) for each in cleared.values() if each.writing)
    if backfill is not None:
        yield from _record(backfill, cleared.values(), state.now)
    yield set_wakeup(state.dag, state.now)


def _clear(run: RunView, request: ClearRequested, newest: Graph, state: State, backfill: BackfillView | None) -> Cleared:
    graph, instances = state.graphs[run.version_id], dict(state.tasks[run.id])
    locked = LockedRun(run, graph, state.tasks[run.id])
    effects: list[Effect] = []
    if backfill is not None:
        run = as_run_of(run, backfill)
        effects += [take_run(run, backfill, graph), *demands(run, graph, locked)]
    if _changes_version(run, request, newest):
        version_effects, instances = change_version(run, graph, newest, instances, state.now)
        effects, graph = [*effects, *version_effects], newest
    cleared = tasks_to_clear(graph, instances, request)
    if cleared:
        effects += clear_tasks(run, graph, instances, cleared, state.now, cause=cleared_by(request.user))
    return Cleared(run, graph, effects, cleared)


def _cascade(request: ClearRequested, dag: DagView, started: Sequence[RunView], state: State) -> BackfillView | None:
    """The backfill that follows the runs; None where no DAG consumes from theirs, or a cascade is not possible."""
    if not request.cascade or request.backfill_id is None or not state.edges or not started or cycle_of(state.edges):
        return None
    stages = stages_of(request.dag_id, state.edges)
    return backfill_after(request.backfill_id, dag.graph, [run.order_at for run in started], stages, state.now)


def _record(backfill: BackfillView, cleared: Collection[Cleared], now: datetime) -> Iterator[Effect]:
    """The backfill, whose dates are the cleared runs in their order."""
    runs_ = sorted((each.run for each in cleared), key=lambda run: (run.order_at, run.id))
    yield InsertBackfill(backfill)
    yield UpdateBackfill(backfill, now)
    for ordinal, run in enumerate(runs_, 1):
        yield InsertDate(backfill.id, ordinal, run.order_at, DateState.OPEN, run.id, again_since=now)


def _announce(cleared: Cleared) -> AnnounceOutlets:
    before = cleared.run.announced or {}
    return AnnounceOutlets(cleared.run.id, {**before, **{task_id: before.get(task_id, 0) + 1 for task_id in cleared.writing}})


def _changes_version(run: RunView, request: ClearRequested, newest: Graph) -> bool:
    return request.newest_version and run.version_id != newest.version_id


def _rejection(request: ClearRequested, state: State, newest: Graph, cleared: Collection[str]) -> RejectMessage | None:
    if not cleared:
        return _nothing_to_clear(request, state)
    if running := _running(request, state, newest, cleared):
        said = f"run {running[0]!r} is running with an older version: cancel it first, or do not ask for the newest version"
        return RejectMessage(STILL_RUNNING, said)
    if request.shown is None or not (others := {*cleared} ^ {*request.shown}):
        return None
    said = f"the runs to clear changed since they were shown ({min(others)!r} differs); show them again, and repeat"
    return RejectMessage(NOT_AS_SHOWN, said)


def _running(request: ClearRequested, state: State, newest: Graph, cleared: Collection[str]) -> list[str]:
    """The runs that cannot change their version: by it the ends of their attempts are decided about."""
    running = (run for run in state.runs.values() if run.state is RunState.RUNNING and run.run_id in cleared)
    return [run.run_id for run in running if _changes_version(run, request, newest)]


def _unreachable(
    request: ClearRequested, state: State, cleared: Mapping[str, Cleared], backfill: BackfillView | None
) -> Iterator[RejectMessage]:
    """Why a cascade, or an announcement, cannot be."""
    if not (request.cascade or request.announce):
        return
    if request.cascade and request.announce:
        reason = "a cascade runs the consumers again, and announced events start new runs of them"
        yield RejectMessage(NOT_POSSIBLE, f"{reason}: choose either cascade or announce")
    if not any(each.writing for each in cleared.values()):
        yield RejectMessage(NOT_POSSIBLE, "none of these tasks updates a dataset: leave out cascade and announce")
    for run in state.runs.values():
        if run.backfill_id in state.busy:
            reason = f"backfill {run.backfill_id} has not ended, and runs {run.run_id!r} already"
            yield RejectMessage(NOT_POSSIBLE, f"{reason}; wait for its end, cancel it, or leave out cascade")
    if request.cascade:
        yield from no_cascade_along(state.edges, state.refusing, "leave out cascade, or choose announce")
    if backfill is not None:
        yield from overlapping(backfill, state.others)


def _too_many(runs: int) -> RejectMessage:
    most = f"at most {MAX_CLEARED_RUNS:,} runs, of about {MAX_CLEARED_TASKS:,} tasks together"
    return RejectMessage(TOO_MANY_RUNS, f"these are {runs:,} runs; one request clears {most}: choose a shorter time range")


def _nothing_to_clear(request: ClearRequested, state: State) -> RejectMessage:
    if not state.runs:
        named = f"run {request.run_id!r}" if request.run_id is not None else "run of these ids"
        missing = "run in that time" if request.run_id is None and request.run_ids is None else named
        return RejectMessage(NOTHING_TO_CLEAR, f"DAG {request.dag_id!r} has no {missing}")
    return RejectMessage(NOTHING_TO_CLEAR, "these runs have no task to clear: none has started, or none has failed")


def unknown_task(request: ClearRequested, newest: Graph, state: State) -> str | None:
    """A requested task or instance that none of the runs has; None where there are no runs at all."""
    graphs = [*state.graphs.values(), *([newest] if request.newest_version else [])]
    known = {node.task.task_id for graph in graphs for node in graph.nodes}
    return next((name for name in request.task_ids if state.runs and not (name in known or _has_instance(name, state))), None)


def _has_instance(name: str, state: State) -> bool:
    if parsed_label(name)[1] is None:
        return False
    found = ((state.graphs[run.version_id], state.tasks.get(run.id, {})) for run in state.runs.values())
    return any(has_instance(graph, instances, name) for graph, instances in found)
