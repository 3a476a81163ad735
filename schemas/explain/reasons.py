"""Why a run or a task does not start: one type per reason, yielded by the functions that decide, printed by the pages."""

from datetime import datetime

from tidegate.schemas.dag import TriggerRule
from tidegate.schemas.explain.worded import Worded
from tidegate.schemas.state import InactiveName, RunState, TaskState


class Reason(Worded, frozen=True):
    """What is not met yet. Its words follow "waits for"."""


class UpstreamNotDone(Reason, frozen=True, tag="upstream"):
    """The trigger rule cannot decide before these direct upstream tasks have ended."""

    task_ids: tuple[str, ...]
    words = "{task_ids}"


class InstancesNotDone(Reason, frozen=True, tag="elements"):
    """`left` of the instances of a mapped task have not ended."""

    left: int
    total: int
    words = "its instances: {left} of {total} have not ended"


class PreviousRunNotDone(Reason, frozen=True, tag="previous_run"):
    """`depends_on_past` or `wait_for_downstream`: tasks of the previous run have to succeed or be skipped first."""

    run_id: str | None
    words = "the previous run, {run_id}"


class NextTry(Reason, frozen=True, tag="next_try"):
    """The retry delay of a failed attempt has not passed."""

    at: datetime | None
    words = "its next try at {at}"


class RuledOut(Reason, frozen=True, tag="ruled_out"):
    """The trigger rule ended the task without an attempt."""

    rule: TriggerRule
    state: TaskState
    words = "a clear: it is {state} by trigger rule {rule}"


class EndedApart(Reason, frozen=True, tag="ended_apart"):
    """The task ended without an attempt, and not by its trigger rule: by the end of its run, a branch, an empty list."""

    state: TaskState
    reason: str
    words = "a clear: it is {state}: {reason}"


class OutsideDates(Reason, frozen=True, tag="outside_dates"):
    """The logical date of the run is outside the dates of the task."""

    words = "a run whose logical date is within its dates: it is not part of this run"


class TaskEnded(Reason, frozen=True, tag="task_ended"):
    """The task failed and has no tries left. It had `tries`."""

    state: TaskState
    tries: int
    reason: str
    words = "a clear: it {state} at try {tries}: {reason}"


class RunEnded(Reason, frozen=True, tag="run_ended"):
    """The run ended before the task did."""

    state: RunState
    reason: str
    words = "a clear: its run ended as {state}: {reason}"


class PoolMissing(Reason, frozen=True, tag="pool_missing"):
    """The task's pool does not exist."""

    pool: str
    words = "pool {pool!r}, which does not exist"


class PoolTooSmall(Reason, frozen=True, tag="pool_too_small"):
    """The task needs more slots than its pool has in all."""

    pool: str
    slots: int
    wanted: int
    words = "pool {pool!r} to become larger: it has {slots} slots, the task needs {wanted}"


class PoolFull(Reason, frozen=True, tag="pool_full"):
    """Fewer slots of the pool are open than the task needs."""

    pool: str
    slots: int
    open: int
    wanted: int
    words = "pool {pool!r}: {open} of its {slots} slots are open, the task needs {wanted}"


class LowerPriority(Reason, frozen=True, tag="lower_priority"):
    """The open slots of the pool go to `others` tasks ahead in its queue."""

    pool: str
    others: int
    words = "pool {pool!r}: its open slots go to tasks ahead of it, {others} now"


class MaxActiveTasks(Reason, frozen=True, tag="max_active_tasks"):
    """The run has `limit` active tasks."""

    limit: int
    words = "other tasks of the run: max_active_tasks is {limit}"


class MaxActiveTisPerDag(Reason, frozen=True, tag="max_active_tis_per_dag"):
    """The task has `limit` active instances in all runs of the DAG."""

    limit: int
    words = "other instances of it in the DAG: max_active_tis_per_dag is {limit}"


class MaxActiveTisPerDagrun(Reason, frozen=True, tag="max_active_tis_per_dagrun"):
    """The task has `limit` active instances in the run."""

    limit: int
    words = "other instances of it in the run: max_active_tis_per_dagrun is {limit}"


class BackfillLimit(Reason, frozen=True, tag="backfill_limit"):
    """The backfill reaches its `max_active_runs`, its `max_active_tasks`, or its `share` of a pool, in slots."""

    backfill_id: int
    limit: str
    value: int
    words = "the rest of backfill {backfill_id}: its {limit} is {value}"


class Parallelism(Reason, frozen=True, tag="parallelism"):
    """The installation has `limit` active tasks."""

    limit: int
    words = "other tasks of the installation: parallelism is {limit}"


class AttemptOpen(Reason, frozen=True, tag="attempt_open"):
    """A user changed the state of the task while an attempt was open. The next attempt starts after that one has ended."""

    words = "the end of an attempt that was open when a user changed the state of the task"


class NotSubmitted(Reason, frozen=True, tag="not_submitted"):
    """No backend has accepted the attempt: its state is `intent` or `submitting`."""

    backend: str
    state: str
    words = "backend {backend!r} to accept the attempt: its state is {state}"


class ClusterUnknown(Reason, frozen=True, tag="cluster_unknown"):
    """None of `hosts`, which have daemons, knows the `address` of the Spark cluster that the task names."""

    cluster: str
    address: str
    hosts: tuple[str, ...]
    words = "a host that knows the {address} of cluster {cluster!r}: it is not in TIDEGATE_SPARK_CLUSTERS of {hosts}"


class DagPaused(Reason, frozen=True, tag="dag_paused"):
    """A paused DAG starts no runs and no tasks."""

    words = "the DAG to be unpaused"


class DagHeld(Reason, frozen=True, tag="dag_held"):
    """A decision about the DAG failed, or a stored version of it cannot be read."""

    reason: str
    words = "the DAG to be released from its hold: {reason}"


class DagStale(Reason, frozen=True, tag="dag_stale"):
    """No DAG file contains the DAG."""

    words = "the DAG to be in a DAG file again"


class MaxActiveRuns(Reason, frozen=True, tag="max_active_runs"):
    """The DAG has `limit` running runs."""

    limit: int
    words = "other runs of the DAG: max_active_runs is {limit}"


class BackfillPaused(Reason, frozen=True, tag="backfill_paused"):
    """A paused backfill starts no runs."""

    backfill_id: int
    words = "backfill {backfill_id} to be resumed"


class BackfillInactive(Reason, frozen=True, tag="backfill_inactive"):
    """The first DAG of the backfill, or the one of its stage, is `paused`, `stale` or `held`: the backfill starts no runs.

    The file of that DAG is at `path`.
    """

    backfill_id: int
    dag_id: str
    state: InactiveName
    path: str
    words = "backfill {backfill_id}, which starts no runs: its DAG {dag_id} is {state}"


class RunsAhead(Reason, frozen=True, tag="runs_ahead"):
    """`count` queued runs of the DAG, or of the backfill, start first."""

    count: int
    words = "queued runs ahead of it: {count}"


class NotYetDue(Reason, frozen=True, tag="run_after"):
    """The run starts at this time or later."""

    at: datetime
    words = "its time: it may start at {at}"


class NoSchedule(Reason, frozen=True, tag="no_schedule"):
    """Neither datasets nor a timetable start runs of the DAG."""

    words = "a request for a run: neither datasets nor a timetable start one"


class TimetableExhausted(Reason, frozen=True, tag="timetable_exhausted"):
    """The timetable has no more ticks."""

    words = "a tick of its timetable, which has no more"


class AwaitsTick(Reason, frozen=True, tag="awaits_tick"):
    """The schedule requires datasets and time both: a run starts at a tick, if the condition holds then."""

    words = "the next tick of its timetable"


class InputsMissing(Reason, frozen=True, tag="inputs_missing"):
    """The condition does not hold: no event of these inputs is pending."""

    inputs: tuple[str, ...]
    words = "its condition to hold: no event is pending of {inputs}"


class OutsideWindow(Reason, frozen=True, tag="outside_window"):
    """All inputs have events, but not within this time of each other."""

    within_s: float
    words = "inputs that happened within {within_s} of each other"


class Debouncing(Reason, frozen=True, tag="debouncing"):
    """The condition holds, but the last event is too recent. Another event postpones `until`."""

    until: datetime
    words = "quiet until {until}, longer if more events arrive"


class RateLimited(Reason, frozen=True, tag="rate_limited"):
    """The condition holds, but the minimum interval since the previous run has not passed."""

    until: datetime
    words = "the minimum interval between two runs to pass, at {until}"


class ConditionBroken(Reason, frozen=True, tag="condition_broken"):
    """The condition cannot be evaluated."""

    reason: str
    words = "a condition that can be evaluated: {reason}"


class RowLocked(Reason, frozen=True, tag="row_locked"):
    """Another session of Postgres, of `pid`, holds the row of `what`: of the DAG or of a run. `holder` says more about it."""

    what: str
    holder: str
    pid: int
    words = "the row of {what}, which another session of Postgres holds: {holder}"


class NoDaemon(Reason, frozen=True, tag="no_daemon"):
    """No daemon is alive."""

    words = "a daemon: none is alive"


class ServerUnreachable(Reason, frozen=True, tag="server_unreachable"):
    """A server is away for the daemons that need it, or their duty fails."""

    server: str
    since: datetime
    error: str
    words = "{server}, out of service since {since}: {error}"


class IntakeHalted(Reason, frozen=True, tag="intake_halted"):
    """These partitions are halted until an operator resumes them at a new offset."""

    partitions: tuple[str, ...]
    words = "halted partitions to be resumed: {partitions}"


NotSatisfied = InputsMissing | OutsideWindow | Debouncing | RateLimited | ConditionBroken
"""The results of a condition that does not start a run."""

NotReady = UpstreamNotDone | InstancesNotDone | PreviousRunNotDone
NeedsClear = RunEnded | TaskEnded | RuledOut | EndedApart | OutsideDates
RunLimit = MaxActiveRuns | RunsAhead
PoolLimit = PoolMissing | PoolTooSmall | PoolFull | LowerPriority
ActivityLimit = MaxActiveTasks | MaxActiveTisPerDag | MaxActiveTisPerDagrun | Parallelism

RunBlocker = DagHeld | DagPaused | DagStale | BackfillPaused | BackfillInactive | NotYetDue | RunLimit | BackfillLimit
AdmissionBlocker = DagHeld | DagPaused | AttemptOpen | PoolLimit | ActivityLimit | BackfillLimit

SharedReason = (
    DagPaused
    | DagHeld
    | DagStale
    | BackfillPaused
    | BackfillInactive
    | NotYetDue
    | NextTry
    | Debouncing
    | RateLimited
    | AttemptOpen
    | NotSubmitted
    | NoDaemon
    | RowLocked
    | ServerUnreachable
)
"""Reasons with one remedy for DAGs and tasks."""

DagReason = SharedReason | RunLimit | NotSatisfied | TimetableExhausted | NoSchedule | IntakeHalted
TaskReason = SharedReason | ClusterUnknown | RunLimit | BackfillLimit | PoolLimit | ActivityLimit | NotReady | NeedsClear

ProgressReason = RunBlocker | AdmissionBlocker | NotReady | NextTry | NoDaemon
"""Reasons in the progress of a run."""
