-- name: active_runs
-- The runs that have not ended, by type and state: up to $1 of them are counted.
SELECT run_type::text AS run_type, state::text AS state, count(*) AS runs
FROM (SELECT run_type, state FROM dag_run WHERE state IN ('queued', 'running') LIMIT $1) AS active
GROUP BY 1, 2
ORDER BY 1, 2

-- name: waits_of_pools
-- How long, in seconds, the task has waited for slots that has waited longest, for each of the first $1 pools; 0 if none waits.
-- Of a pool the $2 oldest tasks are read. Tasks of backfills, and of held and paused DAGs, wait by intention.
SELECT pool.name AS pool, coalesce((
    SELECT greatest(extract(epoch FROM clock_timestamp() - min(in_calendar(oldest.scheduled_at))), 0)
    FROM (
        SELECT dag_run_id, scheduled_at FROM task_instance
        WHERE pool = pool.name AND state = 'scheduled'
        ORDER BY scheduled_at LIMIT $2
    ) AS oldest
    CROSS JOIN LATERAL (
        SELECT dag_id FROM dag_run WHERE dag_run.id = oldest.dag_run_id AND backfill_id IS NULL LIMIT 1
    ) AS run
    JOIN dag ON dag.dag_id = run.dag_id AND NOT dag.is_stopped
), 0)::float8 AS seconds
FROM pool
ORDER BY pool.name
LIMIT $1

-- name: counts
-- Each count ends at $1: counting a backlog must not take long.
SELECT
    (SELECT count(*) FROM live_job) AS daemons,
    (SELECT count(*) FROM (
        SELECT FROM notification WHERE state IN ('pending', 'sending') LIMIT $1
    ) AS open) AS notifications_open,
    (SELECT count(*) FROM (SELECT FROM notification WHERE state = 'failed' LIMIT $1) AS failed) AS notifications_failed,
    (SELECT count(*) FROM (SELECT FROM dag WHERE held_since IS NOT NULL LIMIT $1) AS held) AS held_dags,
    (SELECT count(*) FROM (SELECT FROM commit_loss WHERE settled_at IS NULL LIMIT $1) AS losses) AS losses
