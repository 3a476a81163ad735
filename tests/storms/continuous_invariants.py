"""What must be true at every moment of a storm, looked at while it goes on: each is one statement, and so one moment."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress

import anyio
import asyncpg

from tests.storms.checker import Verdict

EVERY_S = 5.0
LAST_S = 60.0
"""For the last look, after which there is none that could take its place."""
SHOWN = 5

# Of a mapped task it is its own row that is unfinished, and not those of its elements.
STATEMENTS: Mapping[str, str] = {
    "no_event_waits_that_was_consumed": """
        SELECT dag_id || ' waits for event ' || dataset_event_id || ', which its run ' || dag_run_id || ' has consumed'
        FROM dataset_dag_run_queue AS queue
        JOIN dagrun_dataset_event AS consumed USING (dataset_event_id)
        WHERE queue.target_dag_id = consumed.dag_id
    """,
    "no_event_is_consumed_twice": """
        SELECT 'event ' || dataset_event_id || ' made ' || count(*) || ' runs of ' || dag_id
        FROM dagrun_dataset_event
        GROUP BY dag_id, dataset_event_id
        HAVING count(*) > 1
    """,
    "journals_have_no_gap": """
        SELECT 'run ' || run.id || ' stands at ' || run.state_seq || ' after ' || count(log.seq) || ' moves'
        FROM dag_run AS run
        LEFT JOIN run_state_log AS log ON log.dag_run_id = run.id
        GROUP BY run.id
        HAVING count(log.seq) <> run.state_seq OR max(log.seq) <> run.state_seq
    """,
    "tasks_are_counted_right": """
        SELECT 'run ' || run.id || ' counts ' || run.unfinished || ' unfinished and ' || run.active_tasks || ' active tasks, not '
            || count(*) FILTER (WHERE NOT ended) || ' and ' || count(*) FILTER (WHERE active)
        FROM dag_run AS run
        JOIN (
            SELECT
                dag_run_id,
                state IN ('success', 'failed', 'skipped', 'upstream_failed', 'removed') OR task_index >= 1048576 AS ended,
                state IN ('queued', 'running') AS active
            FROM task_instance
        ) AS task ON task.dag_run_id = run.id
        WHERE run.state = 'running'
        GROUP BY run.id
        HAVING run.unfinished <> count(*) FILTER (WHERE NOT ended) OR run.active_tasks <> count(*) FILTER (WHERE active)
    """,
    "what_is_at_work_has_one_attempt": """
        SELECT task.task_id || ' of run ' || task.dag_run_id || ' is ' || task.state || ' with ' || count(attempt) || ' attempts'
        FROM task_instance AS task
        LEFT JOIN submission AS attempt
            ON attempt.dag_run_id = task.dag_run_id
            AND attempt.task_index = task.task_index
            AND attempt.state IN ('intent', 'submitting', 'accepted')
        WHERE task.state IN ('queued', 'running')
        GROUP BY task.dag_run_id, task.task_index
        HAVING count(attempt) <> 1
    """,
    "no_deadline_is_both_met_and_missed": """
        SELECT 'the deadline of run ' || dag_run_id || ' was met and missed' FROM deadline
        WHERE met_at IS NOT NULL AND missed_at IS NOT NULL
    """,
    "no_transaction_is_idle": """
        SELECT client_port || ' has done nothing in its transaction since ' || state_change FROM pg_stat_activity
        WHERE application_name = 'tidegate' AND state LIKE 'idle in transaction%'
          AND state_change < clock_timestamp() - interval '8 s'
    """,
}


class Watch:
    """`found` is what was seen, by statement; `looks` is how often Postgres was there to be looked at."""

    def __init__(self, dsn: str) -> None:
        self.found: dict[str, list[str]] = defaultdict(list)
        self.looks = 0
        self._dsn = dsn
        self._began_at = anyio.current_time()

    async def watch(self) -> None:
        """For ever."""
        while True:
            with suppress(OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
                await self.look(EVERY_S)
            await anyio.sleep(EVERY_S)

    async def look(self, within_s: float = LAST_S) -> None:
        db = await asyncpg.connect(self._dsn, timeout=within_s)
        try:
            for name, statement in STATEMENTS.items():
                rows = await db.fetch(statement, timeout=within_s)
                self._note(name, [row[0] for row in rows])
        finally:
            db.terminate()
        self.looks += 1

    def _note(self, name: str, sentences: Sequence[str]) -> None:
        at = anyio.current_time() - self._began_at
        self.found[name] += [f"{at:.1f} s: {sentence}" for sentence in sentences[:SHOWN]]

    def joined(self, verdict: Verdict) -> Verdict:
        """The verdict on what is left, with what was seen on the way."""
        found = {name: self.found[name] for name in STATEMENTS}
        reached = {**verdict.reached, "looks at all of it meanwhile": self.looks}
        return Verdict(violations={**verdict.violations, **found}, reached=reached)
