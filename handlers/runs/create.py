"""How a run is created and started: its rows, its first moves, and their events."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec

from tidegate.handlers.runs.deadlines import insert_deadlines
from tidegate.handlers.runs.of_version import absent_tasks, times_out_at
from tidegate.handlers.runs.task_effects import insert_task
from tidegate.handlers.runs.transition import change_run, numbered, publish, run_event, update_run
from tidegate.handlers.tasks.advance import Advance, begin
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.run import InsertRun, Reconsider, ReconsiderAfter
from tidegate.schemas.graph import Graph, per_graph
from tidegate.schemas.params import conf_with_defaults
from tidegate.schemas.state import RUN_ENDED, RunState, RunType, run_state
from tidegate.schemas.timetable.tick import Tick
from tidegate.schemas.view import RunView

_begin_whole = per_graph(begin)
"""All runs of a version without absent tasks begin alike."""


def _begin(graph: Graph, run: RunView) -> Advance:
    absent = absent_tasks(graph, run)
    return begin(graph, absent) if absent else _begin_whole(graph)


def create(
    run: RunView, conf: dict[str, Any], graph: Graph, now: datetime, *, started: bool, events: int = 0, events_left: int = 0
) -> Iterator[Effect]:
    """Insert a run that consumes `events` events, queued or already `started`. `run` is the queued one: `state_seq` 1.

    Its limit leaves `events_left` events pending.
    """
    yield run_event(run, RunState.QUEUED, 1, now)
    after = _started(run, graph, now) if started else run
    end_date = now if after.state in RUN_ENDED else None
    conf = conf_with_defaults(graph.params, conf)
    yield InsertRun(**msgspec.structs.asdict(after), end_date=end_date, conf=conf, events=events, events_left=events_left)
    if graph.has_deadlines:
        yield from insert_deadlines(run, graph, now)
    if started:
        yield from _first_effects(run, graph, now)


def promote(run: RunView, graph: Graph, now: datetime) -> Iterator[Effect]:
    """Start a queued run. One that has started before, and was cleared, keeps its tasks."""
    if run.has_tasks:
        yield from change_run(run, _running(run, graph, now), graph, (), now)
        yield Reconsider(run.id)
    else:
        yield update_run(run, _started(run, graph, now), now)
        yield from _first_effects(run, graph, now)


def ends_at_start(run: RunView, graph: Graph) -> bool:
    """Whether a run ends as soon as it starts, and never counts as active. A cleared run has to be reconsidered first."""
    return not run.has_tasks and _begin(graph, run).ended == len(graph.nodes)


def queued_run(
    id_: int, graph: Graph, run_id: str, run_type: RunType, run_after: datetime, *, tick: Tick | None = None
) -> RunView:
    """A new queued run. `tick` gives it its logical date and data interval."""
    return RunView(
        id=id_,
        dag_id=graph.dag_id,
        run_id=run_id,
        run_type=run_type,
        state=RunState.QUEUED,
        version_id=graph.version_id,
        run_after=run_after,
        state_seq=1,
        task_seq=0,
        unfinished=len(graph.nodes),
        failed_leaves=0,
        start_date=None,
        max_active_tasks=graph.max_active_tasks,
        logical_date=tick.logical_date if tick else None,
        data_interval_start=tick.interval_start if tick else None,
        data_interval_end=tick.interval_end if tick else None,
    )


def _running(run: RunView, graph: Graph, now: datetime) -> RunView:
    """The queued run once it is running; its events are not numbered yet."""
    return msgspec.structs.replace(run, state=RunState.RUNNING, start_date=now, times_out_at=times_out_at(graph, now))


def _started(run: RunView, graph: Graph, now: datetime) -> RunView:
    """The run after its first step, in which it may end."""
    step = _begin(graph, run)
    unfinished = len(graph.nodes) - step.ended
    state = run_state(unfinished, step.failed_leaves)
    counted = msgspec.structs.replace(
        _running(run, graph, now), state=state, unfinished=unfinished, failed_leaves=step.failed_leaves
    )
    return numbered(counted, states=1 + (state in RUN_ENDED), moves=len(step.moves))


def _first_effects(run: RunView, graph: Graph, now: datetime) -> Iterator[Effect]:
    step = _begin(graph, run)
    running = numbered(_running(run, graph, now), states=1)
    yield run_event(run, RunState.RUNNING, running.state_seq, now)
    yield from (insert_task(run, instance, graph.nodes[instance.index].task, now) for instance in step.changed)
    has_ended = step.ended == len(graph.nodes)
    yield from publish(running, graph, (run_state(0, step.failed_leaves),) if has_ended else (), step.moves, now)
    if graph.sequential:
        if not has_ended:
            yield Reconsider(run.id)
        yield ReconsiderAfter(run.dag_id, run.id)
