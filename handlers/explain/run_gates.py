"""The gates of a run, which come before those of its tasks: its time, its DAG, the runs ahead of it, its state."""

from collections.abc import Iterator, Mapping

from tidegate.handlers.explain.gate import file_gate, gate, pause_gate, run_limit_gate
from tidegate.handlers.explain.task_facts import TaskFacts
from tidegate.handlers.scheduling.run_limit import blockers_of_run, held_by
from tidegate.schemas.explain.gates import Gate
from tidegate.schemas.explain.reasons import DagPaused, DagStale, MaxActiveRuns, NotYetDue, Reason, RunEnded, RunsAhead
from tidegate.schemas.state import RUN_ENDED, TASK_ACTIVE, TASK_ENDED, RunState


def run_gates(facts: TaskFacts) -> Iterator[Gate]:
    run, dag, blockers = facts.run, facts.dag, _blockers(facts)
    created = {"made": run.run.run_type, "events": run.events or None, "logical_date": run.run.logical_date}
    yield gate("condition", None, created | {"version": run.version}, since=run.created_at)
    yield gate("timing", blockers.get(NotYetDue), {"run_after": run.run.run_after})
    yield pause_gate(dag, blockers.get(DagPaused))
    yield file_gate(dag, blockers.get(DagStale))
    yield run_limit_gate(dag, blockers.get(MaxActiveRuns), run.running_runs, facts.newest_graph.max_active_runs)
    yield gate("queued runs", blockers.get(RunsAhead), {"queued": run.runs_ahead or None})
    yield _run_state(facts)


def _blockers(facts: TaskFacts) -> Mapping[type, Reason]:
    """What keeps the run from starting. A pause also keeps the tasks of a running run from starting."""
    if facts.run.run.state is RunState.QUEUED:
        blockers = blockers_of_run(facts.run, facts.dag, facts.newest_graph.max_active_runs, facts.now)
    elif facts.run.run.state is RunState.RUNNING and facts.instance.state not in TASK_ACTIVE | TASK_ENDED:
        blockers = iter(held_by(is_paused=facts.dag.is_paused, is_stale=False))
    else:
        blockers = iter(())
    return {type(reason): reason for reason in blockers}


def _run_state(facts: TaskFacts) -> Gate:
    row, run = facts.run, facts.run.run
    if run.state in RUN_ENDED and facts.instance.state not in TASK_ENDED:
        return gate("run state", RunEnded(run.state, row.reason or ""), {"state": run.state}, since=row.end_date)
    since = row.end_date or run.start_date or row.created_at
    return gate("run state", None, {"state": run.state}, reached=run.state is not RunState.QUEUED, since=since)
