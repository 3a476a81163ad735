"""The verdict after a storm over limits: what was exceeded, who was passed over without a reason, who waited too long."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import asyncpg
import msgspec

from tests.storms.checker import Verdict
from tests.storms.invariants.attempts import daemons_end_only_when_told, untold_ends
from tests.storms.limits import journal
from tests.storms.limits.ledger import Ledger
from tests.storms.limits.replay import BROTHERS, EXPLAINED, UNEXPLAINED, Inversions, admission
from tests.storms.limits.waits import Idle, PoolTurns, Turns
from tests.storms.processes import End

INVERSIONS = "inversions: {}"
OTHERS_TURNS = "turns of others that a pool waited for, at most"
RARE = {OTHERS_TURNS, INVERSIONS.format(BROTHERS), INVERSIONS.format(UNEXPLAINED)}
"""Not in every storm, and the last of them in none."""

RULES = (
    "slots of a pool",
    "parallelism",
    "max_active_tasks",
    "max_active_tis_per_dagrun",
    "max_active_tis_per_dag",
    "max_active_runs",
)
OTHER_RULES = {"count of active tasks": "active_tasks_are_counted_right", "isolation": "every_transaction_is_read_committed"}
DUE = Path(__file__).with_name("due.sql")
VIOLATIONS = "SELECT rule, of, found, allowed, xid, changed::text FROM limits_violation ORDER BY xid"
LEFT = """
    SELECT count(*) || ' runs are ' || state FROM dag_run WHERE state IN ('queued', 'running') GROUP BY state
    UNION ALL
    SELECT count(*) || ' tasks are ' || state FROM task_instance
    WHERE state NOT IN ('success', 'failed', 'upstream_failed') GROUP BY state
    UNION ALL
    SELECT count(*) || ' submissions are ' || state FROM submission
    WHERE state IN ('intent', 'submitting', 'accepted') GROUP BY state
    UNION ALL
    SELECT count(*) || ' tasks are counted in run ' || max(id) || ' and others that have ended' FROM dag_run
    WHERE active_tasks <> 0 OR unfinished <> 0 HAVING count(*) > 0
"""
OVERTAKEN = """
    WITH run AS (
        SELECT *, greatest(known_at, lag(start_date) OVER (PARTITION BY dag_id, run_type ORDER BY start_date)) AS first_at
        FROM limits_due
    )
    SELECT run.dag_id, run.run_id, run.run_type, run.first_at, other.run_type, count(*)
    FROM run
    JOIN limits_due AS other USING (dag_id)
    WHERE other.run_type <> run.run_type AND other.start_date > run.first_at AND other.start_date < run.start_date
    GROUP BY run.dag_id, run.run_id, run.run_type, run.first_at, other.run_type
    HAVING count(*) > 1
"""
WAITED = """
    SELECT run.run_type::text, extract(epoch FROM task.start_date - task.scheduled_at)::float
    FROM task_instance AS task JOIN dag_run AS run ON run.id = task.dag_run_id WHERE task.start_date IS NOT NULL
"""
COUNTS = """
    SELECT
        (SELECT count(*) FROM task_instance) AS "task instances",
        (SELECT count(*) FROM limits_commit) AS "commits checked",
        (SELECT count(*) FROM dag_run WHERE run_type = 'scheduled') AS "timed runs",
        (SELECT count(*) FROM dag_run WHERE run_type = 'dataset') AS "dataset runs",
        (SELECT count(*) FROM dag_run WHERE run_type = 'manual') AS "manual runs",
        (SELECT count(*) FROM task_instance WHERE try_number > 1) AS "tasks tried again",
        (SELECT count(*) FROM task_instance WHERE task_index >= 1048576) AS "mapped task instances"
"""


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """What the daemons are told, and `idle_s`: how long a task may wait beside free slots while a daemon is at work."""

    parallelism: int
    fair_after_s: float
    idle_s: float


class Gone:
    """A storm gone through once, from its journal."""

    def __init__(self, bounds: Bounds, ends: Sequence[End]) -> None:
        self.ledger = Ledger(bounds.parallelism)
        self.inversions = Inversions(self.ledger, bounds.fair_after_s)
        self.turns = Turns(self.ledger, bounds.fair_after_s)
        lives = [end.life for end in ends if end.life]
        self.pool_turns = PoolTurns(self.ledger, (begin for begin, _ in lives))
        self.idle = Idle(self.ledger, lives)
        self.fair_turns = 0
        self.over = 0

    def go(self, commits: Iterable[journal.Commit]) -> None:
        for commit in commits:
            seen = admission(commit, self.ledger)
            if seen is not None:
                self.fair_turns += seen.turns
                for counter in (self.inversions, self.turns, self.pool_turns):
                    counter.see(seen)
            self.ledger.apply(commit)
            self.idle.see(commit)
            self.over += any(self.ledger.is_over(change.name) for change in commit.pools)


async def judge(db: "asyncpg.Connection[asyncpg.Record]", ends: Sequence[End], bounds: Bounds) -> Verdict:
    gone = Gone(bounds, ends)
    gone.go(await journal.read(db))
    await db.execute(DUE.read_text())
    violations: dict[str, Sequence[str]] = {
        **await _exceeded(db),
        "everything_has_ended": [row[0] for row in await db.fetch(LEFT)],
        "inversions_are_explained": gone.inversions.unexplained,
        "starving_tasks_have_their_turn": gone.turns.unfair,
        "pools_take_turns": gone.pool_turns.unfair,
        "no_task_waits_beside_free_slots": list(_idle(gone, bounds.idle_s)),
        "no_kind_of_run_is_overtaken": [_overtaken(row) for row in await db.fetch(OVERTAKEN)],
        daemons_end_only_when_told.__name__: untold_ends(ends),
    }
    return Verdict(violations, {**await _counts(db), **_reached(gone), "daemons killed": sum(end.code == -9 for end in ends)})


async def _exceeded(db: "asyncpg.Connection[asyncpg.Record]") -> dict[str, list[str]]:
    """By rule, every commit that added to what was full, and what it changed."""
    found: dict[str, list[str]] = defaultdict(list)
    for rule, of, amount, allowed, xid, changed in await db.fetch(VIOLATIONS):
        found[rule].append(f"{of} had {amount} of {allowed} when transaction {xid} ended, which moved {changed}")
    limits = {f"never_over_{rule.replace(' ', '_')}": found[rule] for rule in RULES}
    return {**limits, **{name: found[rule] for rule, name in OTHER_RULES.items()}}


def _idle(gone: Gone, bound_s: float) -> Iterator[str]:
    for pool, seconds in gone.idle.longest_s.items():
        if seconds > bound_s:
            yield f"a task fitted into {pool} for {seconds:.1f} s and nothing was admitted"


def _overtaken(row: Any) -> str:
    dag_id, run_id, kind, first_at, other, count = row
    return f"{kind} run {run_id} of {dag_id}, the next of its kind since {first_at}, was overtaken by {count} {other} runs"


async def _counts(db: "asyncpg.Connection[asyncpg.Record]") -> Mapping[str, int]:
    row = await db.fetchrow(COUNTS)
    assert row is not None
    return dict(row)


def _reached(gone: Gone) -> Mapping[str, int]:
    """Every limit has held a task up, every reason for an inversion has come up, or the storm was too weak."""
    passed = gone.inversions.passed_over
    limits = (rule for rule in RULES if rule != "max_active_runs")
    return {
        "pools over-committed": gone.over,
        "turns of starving tasks": gone.fair_turns,
        **{f"held up by {rule}": passed[rule] for rule in limits},
        OTHERS_TURNS: max(gone.pool_turns.longest.values(), default=0),
        **{INVERSIONS.format(reason): passed[reason] for reason in (*EXPLAINED, UNEXPLAINED)},
    }


async def waited(db: "asyncpg.Connection[asyncpg.Record]") -> str:
    """For people: how long tasks waited, by kind of run."""
    found: dict[str, list[float]] = defaultdict(list)
    for kind, seconds in await db.fetch(WAITED):
        found[kind].append(seconds)
    lines = [f"{median(all_):7.2f} s, at most {max(all_):.2f} s: tasks of {kind} runs" for kind, all_ in sorted(found.items())]
    return "\n".join(lines)
