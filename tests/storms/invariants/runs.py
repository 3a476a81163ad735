"""What must be true of runs after a storm. Each function returns what contradicts its name, as sentences."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import pairwise

from tests.conditions import is_met, names_all
from tests.storms.evidence import Evidence
from tidegate.schemas.state import RUN_MOVES, TASK_ENDED, RunState


async def nothing_waits_beside_an_open_gate(e: Evidence) -> Iterable[str]:
    """At rest no DAG has room for a run and all that it waits for."""
    pending: dict[str, set[str]] = defaultdict(set)
    for dag_id, uri in await e.db.fetch(
        "SELECT DISTINCT target_dag_id, uri FROM dataset_dag_run_queue JOIN dataset ON dataset.id = dataset_id"
    ):
        pending[dag_id].add(uri)
    rows = await e.db.fetch("SELECT dag_id, count(*) FROM dag_run WHERE state IN ('queued', 'running') GROUP BY 1")
    active = {row[0]: row[1] for row in rows}
    return [
        f"{dag_id} has {sorted(uris)} and room, but no run"
        for dag_id, uris in pending.items()
        if is_met(e.specs[dag_id].schedule, uris) and active.get(dag_id, 0) < e.specs[dag_id].max_active_runs
    ]


async def each_run_has_what_its_condition_needs(e: Evidence) -> Iterable[str]:
    """The events that a run consumed meet the condition of its version of the DAG, and none is of another dataset."""
    rows = await e.db.fetch(
        """
        SELECT run.dag_id, run.run_id, run.version_id, array_remove(array_agg(DISTINCT dataset.uri), NULL) AS uris
        FROM dag_run AS run
        LEFT JOIN dagrun_dataset_event AS consumed ON consumed.dag_run_id = run.id
        LEFT JOIN dataset_event AS event ON event.id = consumed.dataset_event_id
        LEFT JOIN dataset ON dataset.id = event.dataset_id
        WHERE run.run_type = 'dataset'
        GROUP BY run.id
        """
    )
    return [
        f"{run_id} of {dag_id} consumed only {uris}"
        for dag_id, run_id, version_id, uris in rows
        if not is_met(schedule := e.versions[version_id].schedule, uris) or not names_all(schedule, uris)
    ]


async def active_runs_stay_in_their_limit(e: Evidence) -> Iterable[str]:
    rows = await e.db.fetch("SELECT DISTINCT dag_id, running, allowed FROM storm_overrun")
    return [f"{dag_id} had {running} runs at once, of {allowed}" for dag_id, running, allowed in rows]


async def pools_are_never_over_and_end_empty(e: Evidence) -> Iterable[str]:
    over = await e.db.fetch("SELECT occupied, slots FROM storm_pool WHERE occupied > slots")
    left = await e.db.fetchval("SELECT count(*) FROM task_instance WHERE state IN ('queued', 'running')")
    return [
        *(f"{occupied} of {slots} slots were occupied" for occupied, slots in over),
        *([f"{left} slots are still occupied"] if left else []),
    ]


async def everything_has_ended(e: Evidence) -> Iterable[str]:
    left = {
        "runs": "SELECT count(*) FROM dag_run WHERE state NOT IN ('success', 'failed')",
        "runs with unfinished tasks": "SELECT count(*) FROM dag_run WHERE unfinished <> 0",
        "tasks": f"SELECT count(*) FROM task_instance WHERE state NOT IN {tuple(map(str, TASK_ENDED))}",
        "submissions": "SELECT count(*) FROM submission WHERE state IN ('intent', 'submitting', 'accepted')",
        "rows of the outbox": "SELECT count(*) FROM outbox",
    }
    counts = {what: await e.db.fetchval(sql) for what, sql in left.items()}
    return [f"{count} {what} are left" for what, count in counts.items() if count]


async def the_journal_of_each_run_is_whole(e: Evidence) -> Iterable[str]:
    """`seq` counts 1 … n without a gap, every move is legal, and the last one is where the run stands.

    An entry that tells of a missed deadline has a number too, but moves nothing.
    """
    journal: dict[int, list[tuple[int, RunState]]] = defaultdict(list)
    for run, seq, state in await e.db.fetch("SELECT dag_run_id, seq, state FROM run_state_log ORDER BY 1, 2"):
        journal[run].append((seq, RunState(state)))
    missed = {(row[0], row[1]) for row in await e.db.fetch("SELECT dag_run_id, missed_seq FROM deadline")}
    rows = await e.db.fetch("SELECT id, state_seq, state FROM dag_run")
    stands = {row[0]: (row[1], RunState(row[2])) for row in rows}
    return [
        *(f"run {run} has no journal" for run in stands.keys() - journal.keys()),
        *(
            f"run {run} stands at {stands.get(run)}, not {moves[-1]}"
            for run, moves in journal.items()
            if moves[-1] != stands.get(run)
        ),
        *(
            f"run {run} {problem}"
            for run, moves in journal.items()
            for problem in _problems(moves, {seq for seq, _ in moves if (run, seq) in missed})
        ),
    ]


def _problems(entries: Sequence[tuple[int, RunState]], still: Set[int]) -> Iterator[str]:
    """`still` are the numbers of entries that are no moves."""
    numbers = [seq for seq, _ in entries]
    if numbers != list(range(1, len(entries) + 1)):
        yield f"counts {numbers}"
    for (_, before), (seq, after) in pairwise([(0, None), *entries]):
        if after is not None and ((before, after) not in RUN_MOVES if seq not in still else before != after):
            yield f"moved from {before} to {after}"
