"""How far a run has come, and why it goes no further."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime

from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.pages.moment import took, utc
from tidegate.daemon.settings import Settings
from tidegate.handlers.explain.run_progress import Facts, progress
from tidegate.schemas.explain import reasons as shown
from tidegate.schemas.queries import leases, pools, tasks, versions
from tidegate.schemas.queries import progress as queries
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.run_pages import RunRow

WORKING_TITLES = ("TASK", "STATE", "TRY", "SINCE", "FOR", "BACKEND", "HOST")
WAITING_TITLES = ("TASK", "STATE", "WAITS FOR")
ABOUT_TO_COME = "its turn, which is about to come"


async def read_progress(db: Db, asked: RunRow, settings: Settings) -> shown.Progress:
    """`settings` are taken for those of the daemons."""
    found = await queries.run_facts(db, asked.dag_id, asked.run_id)
    run = found.run
    graphs = await versions.graphs(db, {run.version_id, found.newest_version_id})
    graph = graphs[run.version_id]
    limited = [node.task.task_id for node in graph.nodes if node.task.max_active_per_dag or node.task.max_active_per_run]
    instances = await tasks.of_runs(db, [run.id])
    facts = Facts(
        now=db.now,
        run=found,
        max_active_runs=graphs[found.newest_version_id].max_active_runs,
        pools={pool.name: pool for pool in await pools.list_pools(db)},
        attempts={attempt.task_index: attempt for attempt in await queries.attempts_under_way(db, run.id)},
        attempted=await queries.still_attempted(db, run.id),
        limited=await tasks.limited_activity(db, limited) if limited else (),
        parallelism=settings.parallelism,
        active=await pools.active(db) if settings.parallelism else 0,
        daemons=len(await leases.live(db)),
    )
    return progress(graph, list(instances.values()), facts)


def print_progress(page: shown.Progress, now: datetime) -> None:
    output.heading(f"{page.dag_id} {page.run_id}")
    counts = ", ".join(f"{count} {state}" for state, count in page.counts.items())
    output.facts(
        (
            ("state", page.state),
            ("waits for", "; ".join(map(text_of, page.blocked_by))),
            ("tasks", f"{page.ended} of {page.tasks} ended" + (f": {counts}" if counts else "")),
        )
    )
    output.section("at work", WORKING_TITLES, (_working(each, now) for each in page.working), empty="nothing")
    output.section("waiting", WAITING_TITLES, _waiting(page.waiting), empty="nothing")


def text_of(block: shown.Block) -> str:
    """What is waited for, after the words `waits for`."""
    match block:
        case shown.PoolMissing() | shown.PoolTooSmall() | shown.PoolFull():
            return _text_of_slots(block)
        case shown.DagPaused() | shown.DagStale() | shown.NoDaemon():
            return _text_of_held(block)
        case (
            shown.RunLimit()
            | shown.TaskLimitInRun()
            | shown.TaskLimitInDag()
            | shown.Parallelism()
            | shown.DagLimit()
            | shown.AttemptOpen()
        ):
            return _text_of_limit(block)
        case _:
            return _text_of_turn(block)


def _text_of_turn(block: shown.Turn) -> str:
    match block:
        case shown.UpstreamNotDone(task_ids):
            return ", ".join(task_ids)
        case shown.ElementsNotDone(left, total):
            return f"its instances: {left} of {total} have not ended"
        case shown.RunBefore(run_id):
            return f"the run before it, {run_id}"
        case shown.NextTry(at):
            return "its next try" if at is None else f"its next try at {utc(at)}"
        case shown.NotYetDue(at):
            return f"its time: it may start at {utc(at)}"
        case shown.RunsAhead(count):
            return "1 queued run before it" if count == 1 else f"{count} queued runs before it"


def _text_of_slots(block: shown.Slots) -> str:
    match block:
        case shown.PoolMissing(pool):
            return f"pool {pool!r}, which does not exist"
        case shown.PoolTooSmall(pool, slots, wanted):
            return f"pool {pool!r} to become larger: it has {slots} slots, {wanted} are needed"
        case shown.PoolFull(pool, slots, free, wanted):
            return f"pool {pool!r}: {free} of its {slots} slots are open, {wanted} {'is' if wanted == 1 else 'are'} needed"


def _text_of_limit(block: shown.Limit) -> str:
    match block:
        case shown.RunLimit(limit):
            return f"room in the run: max_active_tasks is {limit}"
        case shown.TaskLimitInRun(limit):
            return f"other instances of it in the run: max_active_tis_per_dagrun is {limit}"
        case shown.TaskLimitInDag(limit):
            return f"other instances of it in the DAG: max_active_tis_per_dag is {limit}"
        case shown.Parallelism(limit):
            return f"room in the whole installation: parallelism is {limit}"
        case shown.DagLimit(limit):
            return f"other runs of the DAG: max_active_runs is {limit}"
        case shown.AttemptOpen():
            return "its attempt to end, which was at work when a user decided about the task"


def _text_of_held(block: shown.Held) -> str:
    match block:
        case shown.DagPaused():
            return "the DAG to be unpaused"
        case shown.DagStale():
            return "the DAG to be in a DAG file again"
        case shown.NoDaemon():
            return "a daemon: none shows any life"


def _working(task: shown.Working, now: datetime) -> tuple[output.Cell, ...]:
    return task.task_id, task.state, task.try_number, task.since, took(task.since, None, now), task.backend, task.host


def _waiting(tasks: Sequence[shown.Waiting]) -> Iterator[tuple[output.Cell, ...]]:
    """A line per task; instances of a mapped task that wait for the same have one together."""
    alike: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for task in tasks:
        of_many = task.task_id.endswith("]")
        name = task.task_id.partition("[")[0] if of_many else ""
        texts = "; ".join(map(text_of, task.blocked_by)) or ABOUT_TO_COME
        alike[name or task.task_id, task.state, texts].append(task.task_id)
    for (name, state, texts), labels in alike.items():
        yield labels[0] if len(labels) == 1 else f"{name}: {len(labels)} instances", state, texts
