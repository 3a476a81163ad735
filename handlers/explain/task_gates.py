"""The gates of a task instance in their order: those of its run, its readiness, its slots and limits, its submission."""

from collections.abc import Iterator, Mapping, Sequence

from tidegate.handlers.admission.capacity import Capacity
from tidegate.handlers.admission.select import select_tasks
from tidegate.handlers.explain.gate import (
    Fact,
    GateFacts,
    Outage,
    daemons_gate,
    file_gate,
    gate,
    lock_gates,
    outage_gate,
    pause_gate,
    run_limit_gate,
)
from tidegate.handlers.explain.run_progress import readiness_blockers
from tidegate.handlers.explain.task_facts import TaskFacts
from tidegate.handlers.scheduling.run_limit import blockers_of_hold, blockers_of_inactivity, blockers_of_run
from tidegate.handlers.tasks.previous_run import blocking_tasks
from tidegate.handlers.tasks.upstream_counts import upstream_of
from tidegate.schemas.cluster import ADDRESSES
from tidegate.schemas.error import DUTY, RUNNERS, SPOOL
from tidegate.schemas.explain.facts import AttemptFacts, OccupyingTask
from tidegate.schemas.explain.gates import Gate
from tidegate.schemas.explain.reasons import (
    AdmissionBlocker,
    AttemptOpen,
    BackfillInactive,
    BackfillLimit,
    BackfillPaused,
    ClusterUnknown,
    DagHeld,
    DagPaused,
    DagStale,
    EndedApart,
    InstancesNotDone,
    LowerPriority,
    MaxActiveRuns,
    MaxActiveTasks,
    MaxActiveTisPerDag,
    MaxActiveTisPerDagrun,
    NextTry,
    NotReady,
    NotSubmitted,
    NotYetDue,
    OutsideDates,
    Parallelism,
    PoolFull,
    PoolMissing,
    PoolTooSmall,
    PreviousRunNotDone,
    RuledOut,
    RunEnded,
    RunsAhead,
    TaskEnded,
    TaskReason,
    UpstreamNotDone,
)
from tidegate.schemas.graph import Node, element_of
from tidegate.schemas.state import RUN_ENDED, TASK_ACTIVE, TASK_ENDED, RunState, SubmissionState, TaskState

Reasons = Mapping[type, TaskReason]

NEVER_ATTEMPTED = frozenset({TaskState.SKIPPED, TaskState.UPSTREAM_FAILED, TaskState.REMOVED})
"""End states of tasks that never had an attempt."""

STARTS_TASKS = frozenset({SPOOL, RUNNERS, f"{DUTY}dispatch"})
"""The outages that keep attempts from being submitted. Without Postgres there is no explanation."""


def run_gates(facts: TaskFacts) -> Iterator[Gate[TaskReason]]:
    run, dag, blockers = facts.run, facts.dag, _run_blockers(facts)
    created = {"made": run.view.run_type, "events": run.events or None, "logical_date": run.view.logical_date}
    yield gate("condition", None, created | {"version": run.version}, since=run.created_at)
    yield gate("timing", blockers.get(NotYetDue), {"run_after": run.view.run_after})
    if DagHeld in blockers:
        yield gate("hold", blockers[DagHeld], {"file": dag.path}, since=dag.held_since)
    yield pause_gate(dag, blockers.get(DagPaused))
    yield file_gate(dag, blockers.get(DagStale))
    limit = run.backfill.max_active_runs if run.backfill else facts.newest_graph.max_active_runs
    yield run_limit_gate(dag, blockers.get(MaxActiveRuns) or blockers.get(BackfillLimit), run.running_runs, limit)
    if run.backfill:
        stopped = blockers.get(BackfillPaused) or blockers.get(BackfillInactive)
        yield gate("backfill", stopped, {"backfill": run.backfill.id, "state": run.backfill.state})
    yield gate("queued runs", blockers.get(RunsAhead), {"queued": run.runs_ahead or None})
    yield _run_state(facts)


def readiness_gates(facts: TaskFacts) -> Iterator[Gate[TaskReason]]:
    """The gates before admission: upstream tasks, the previous run, the retry delay."""
    node, waits = facts.graph.node(facts.instance.index), _waits(facts)
    reasons = _by_type(_readiness_blockers(facts)) if waits else {}
    upstream = reasons.get(UpstreamNotDone) or reasons.get(InstancesNotDone)
    yield gate("upstream", upstream, _upstream(facts, node), reached=facts.has_started)
    yield _rule(facts, node, reached=facts.has_started and not upstream)
    if node.task.depends_on_past or node.task.wait_for_downstream:
        blocking = blocking_tasks(facts.previous, facts.graph, facts.instance.index) if waits else ()
        known = {"run": facts.run.run_before, "tasks": blocking}
        yield gate("previous run", reasons.get(PreviousRunNotDone), known, reached=facts.has_started and not upstream)
    yield _next_try(facts)


def admission_gates(facts: TaskFacts) -> Iterator[Gate[TaskReason]]:
    """The slots of the pool, and every limit."""
    reasons = _by_type(_slot_blockers(facts))
    reached = facts.admission is not None or _was_admitted(facts)
    yield _pool(facts, reasons.get(PoolMissing) or reasons.get(PoolTooSmall) or reasons.get(PoolFull), reached=reached)
    yield gate("priority", reasons.get(LowerPriority), _queue(facts), reached=reached)
    if AttemptOpen in reasons:
        yield gate("attempt", reasons[AttemptOpen], _submission(facts.attempt) if facts.attempt else {})
    for name, of, limit, working in _limits(facts):
        known = {"limit": limit, **(working if facts.admission else {})}
        yield gate(name, reasons.get(of), known, reached=reached)
    yield from _backfill_gates(facts)


def submission_gates(facts: TaskFacts) -> Iterator[Gate[TaskReason]]:
    """The attempt, its backend, and the daemons that submit it."""
    attempt, state = facts.attempt, facts.instance.state
    reached = attempt is not None and state in TASK_ENDED | TASK_ACTIVE
    reason, since = None, None
    if attempt is not None and reached:
        if _is_unsubmitted(facts):
            reason = NotSubmitted(attempt.backend, attempt.state)
        since = attempt.started_at or attempt.submitted_at or attempt.created_at
    yield gate("submission", reason, _submission(attempt) if attempt and reached else None, reached=reached, since=since)
    backend = {"backend": attempt.backend} if attempt else {}
    yield outage_gate("backend", _outage(facts) if reason else None, backend, reached=reached)
    if attempt is not None and attempt.cluster:
        yield _cluster(facts, attempt, attempt.cluster, reached=reached)
    yield daemons_gate(facts.daemons, needed=state not in TASK_ENDED | {TaskState.RUNNING})
    yield from lock_gates(None if state in TASK_ENDED else facts.held_row)


def _cluster(facts: TaskFacts, attempt: AttemptFacts, cluster: str, *, reached: bool) -> Gate[TaskReason]:
    """Closed while no host knows the cluster. A daemon of a former version claims tasks of every cluster."""
    clusters = [(daemon.host, daemon.terms.clusters) for daemon in facts.daemons]
    knowing = sorted({host for host, known in clusters if known is None or cluster in known.get(attempt.backend, ())})
    reason = None
    if clusters and not knowing and _is_unsubmitted(facts):
        hosts = tuple(sorted({host for host, _ in clusters}))
        reason = ClusterUnknown(cluster, ADDRESSES[attempt.backend], hosts)
    return gate("cluster", reason, {"cluster": cluster, "known_on": tuple(knowing)}, reached=reached)


def _is_unsubmitted(facts: TaskFacts) -> bool:
    is_intended = facts.attempt is not None and facts.attempt.state in (SubmissionState.INTENT, SubmissionState.SUBMITTING)
    return is_intended and facts.instance.state is TaskState.QUEUED


def _run_blockers(facts: TaskFacts) -> Reasons:
    """What keeps the run from starting. A hold and a pause also keep the tasks of a running run from starting.

    A hold keeps attempts from being submitted, too.
    """
    if facts.run.view.state is RunState.QUEUED:
        blockers = blockers_of_run(facts.run, facts.dag, facts.newest_graph.max_active_runs, facts.now)
    elif facts.run.view.state is RunState.RUNNING and facts.instance.state not in TASK_ACTIVE | TASK_ENDED:
        blockers = iter((*blockers_of_hold(facts.dag), *blockers_of_inactivity(is_paused=facts.dag.is_paused, is_stale=False)))
    elif _is_unsubmitted(facts):
        blockers = iter(blockers_of_hold(facts.dag))
    else:
        blockers = iter(())
    return _by_type(blockers)


def _run_state(facts: TaskFacts) -> Gate[TaskReason]:
    row, run = facts.run, facts.run.view
    if run.state in RUN_ENDED and facts.instance.state not in TASK_ENDED:
        return gate("run state", RunEnded(run.state, row.reason or ""), {"state": run.state}, since=row.end_date)
    since = row.end_date or run.start_date or row.created_at
    return gate("run state", None, {"state": run.state}, reached=run.state is not RunState.QUEUED, since=since)


def _by_type(reasons: Iterator[TaskReason]) -> Reasons:
    return {type(reason): reason for reason in reasons}


def _pool(facts: TaskFacts, reason: TaskReason | None, *, reached: bool) -> Gate[TaskReason]:
    task, row, admission = facts.graph.node(facts.instance.index).task, facts.row, facts.admission
    known: dict[str, Fact] = {"pool": facts.pool, "needed": task.pool_slots}
    if admission:
        known |= {"slots": admission.pool.slots, "taken": facts.occupied, "by": _names(facts.in_pool)}
    return gate("pool", reason, known, reached=reached, since=row.scheduled_at if row and reached else None)


def _limits(facts: TaskFacts) -> Iterator[tuple[str, type[TaskReason], int | None, GateFacts]]:
    """The limits that apply to the task, each with its reason and with the tasks that count."""
    run, task = facts.run.view, facts.graph.node(facts.instance.index).task
    in_run: GateFacts = {"working": run.active_tasks, "tasks": _names(facts.in_run)}
    yield "max_active_tasks", MaxActiveTasks, run.max_active_tasks, in_run
    same = {"tasks": _names(facts.of_task)}
    if task.max_active_per_dag is not None:
        yield "max_active_tis_per_dag", MaxActiveTisPerDag, task.max_active_per_dag, same
    if task.max_active_per_run is not None:
        yield "max_active_tis_per_dagrun", MaxActiveTisPerDagrun, task.max_active_per_run, same
    if facts.admission and facts.admission.pool.parallelism:
        yield "parallelism", Parallelism, facts.admission.pool.parallelism, {"working": facts.active}


def _backfill_gates(facts: TaskFacts) -> Iterator[Gate[TaskReason]]:
    """Both limits of a backfill may be reached."""
    if backfill := facts.backfill:
        reasons = {reason.limit: reason for reason in _slot_blockers(facts) if isinstance(reason, BackfillLimit)}
        tasks = {"limit": backfill.max_active_tasks, "working": backfill.active_tasks}
        yield gate("backfill tasks", reasons.get("max_active_tasks"), tasks)
        if backfill.share_slots is not None:
            share = {"share": backfill.share_slots, "occupied": backfill.occupied}
            yield gate("backfill share", reasons.get("share"), share)


def _submission(attempt: AttemptFacts) -> GateFacts:
    abandoned = attempt.state == SubmissionState.SUBMITTING and not attempt.has_owner
    return {
        "state": attempt.state,
        "host": attempt.host,
        "before_it": attempt.ahead or None,
        "daemon": "gone" if abandoned else None,
        "to_be_killed": attempt.kill_reason,
        "last_sign_of_life": attempt.heartbeat_at,
    }


def _waits(facts: TaskFacts) -> bool:
    """Whether the run is running and the task not ready yet."""
    return facts.run.view.state is RunState.RUNNING and facts.instance.state is TaskState.NONE


def _readiness_blockers(facts: TaskFacts) -> Iterator[NotReady]:
    if element_of(facts.instance.index) is None:
        states = {position: facts.state_of(position) for position in range(len(facts.graph.nodes))}
        yield from readiness_blockers(facts.graph, facts.instance, states, facts.run.run_before)


def _upstream(facts: TaskFacts, node: Node) -> GateFacts:
    if element_of(facts.instance.index) is not None:
        return {}
    if not facts.has_started:
        return {"tasks": node.task.upstream}
    upstream = facts.graph.upstream_of(facts.instance.index)
    undone = [index for index in upstream if facts.state_of(index) not in TASK_ENDED]
    return {
        "ended": f"{len(upstream) - len(undone)} of {len(upstream)}" if upstream else None,
        "not_ended": tuple(f"{facts.graph.label(index)} {facts.state_of(index)}" for index in undone),
        "instances": facts.instance.elements or None,
    }


def _rule(facts: TaskFacts, node: Node, *, reached: bool) -> Gate[TaskReason]:
    reason, counts = _end_without_attempt(facts, node), upstream_of(facts.instance)
    known: dict[str, Fact] = {"rule": node.task.trigger_rule, "success": counts.success, "failed": counts.failed}
    known |= {"skipped": counts.skipped, "upstream_failed": counts.upstream_failed}
    since = facts.row.end_date if reason and facts.row else None
    return gate("trigger rule", reason, {name: value or None for name, value in known.items()}, reached=reached, since=since)


def _end_without_attempt(facts: TaskFacts, node: Node) -> TaskReason | None:
    """The trigger rule gives no reason of its own, and is that of the mapped task."""
    state, is_element = facts.instance.state, element_of(facts.instance.index) is not None
    if state not in NEVER_ATTEMPTED:
        return None
    if state is TaskState.REMOVED:
        return None if is_element else OutsideDates()
    if facts.row is not None and facts.row.reason:
        return EndedApart(state, facts.row.reason)
    return None if is_element else RuledOut(node.task.trigger_rule, state)


def _reason(facts: TaskFacts) -> str:
    """Why the task has its state: of itself, as where a user marked it, or of its last attempt."""
    return (facts.row and facts.row.reason) or (facts.attempt.reason if facts.attempt else "")


def _next_try(facts: TaskFacts) -> Gate[TaskReason]:
    instance, attempt = facts.instance, facts.attempt
    reason: TaskReason | None = None
    if instance.state is TaskState.UP_FOR_RETRY:
        reason = NextTry(instance.next_try_at)
    elif instance.state is TaskState.FAILED:
        reason = TaskEnded(instance.state, instance.try_number, _reason(facts))
    known: dict[str, Fact] = {"tries": instance.try_number, "of": instance.max_tries}
    if attempt and instance.state is TaskState.UP_FOR_RETRY:
        known |= {"reason": _reason(facts)}
    reached = facts.has_started and instance.state not in NEVER_ATTEMPTED | {TaskState.NONE}
    return gate("next try", reason, known, reached=reached, since=attempt.ended_at if attempt and reason else None)


def _slot_blockers(facts: TaskFacts) -> Iterator[AdmissionBlocker]:
    """The blockers now, and the limits that the tasks ahead reach once they are admitted. The slots that they get come last."""
    if facts.admission is None:
        return
    *_, task = facts.admission.waiting
    capacity = Capacity(facts.admission)
    blockers = capacity.blockers(task)
    selected = list(select_tasks(capacity))
    if task in selected:
        return
    after = capacity.blockers(task)
    limits = [reason for reason in after if not isinstance(reason, PoolFull)]
    yield from (*limits, *(reason for reason in blockers if isinstance(reason, PoolFull)))
    if not blockers and (not limits or len(limits) < len(after)):
        yield LowerPriority(facts.admission.pool.name, len(selected))


def _queue(facts: TaskFacts) -> GateFacts:
    """The queue ahead of the task."""
    if facts.admission is None:
        return {}
    *ahead, _ = facts.admission.waiting
    names = tuple(f"{task.dag_id} {facts.admission.runs[task.dag_run_id].run_id} {task.task_id}" for task in ahead[:3])
    return {"before_it": len(ahead), "first": names}


def _was_admitted(facts: TaskFacts) -> bool:
    state = facts.instance.state
    return state in TASK_ACTIVE or (state in TASK_ENDED - NEVER_ATTEMPTED and facts.instance.try_number > 0)


def _outage(facts: TaskFacts) -> Outage | None:
    """The first of the outages that all daemons have and that keep tasks from starting."""
    if not facts.daemons:
        return None
    missing = STARTS_TASKS.intersection(*(daemon.away for daemon in facts.daemons))
    away = facts.daemons[0].away
    return min(((name, away[name]) for name in sorted(missing)), key=lambda outage: outage[1].since, default=None)


def _names(tasks: Sequence[OccupyingTask]) -> tuple[str, ...]:
    return tuple(f"{task.dag_id} {task.run_id} {task.task}" for task in tasks)
