-- name: outstanding_work
-- Work for daemons. Paused and held DAGs, queued runs of stale DAGs and of paused backfills, and runs whose tasks wait for the
-- previous run, or for pools that never have the slots, wait for a user. So do queued runs of a DAG with such a run: they start
-- when a run ends.
WITH waiting AS MATERIALIZED (
    SELECT run.id, run.dag_id
    FROM dag_run AS run
    CROSS JOIN LATERAL (
        SELECT
            bool_or(task.state = 'scheduled' OR (task.state = 'none' AND task.waits_for_past)) AS waits,
            bool_or(task.state IN ('queued', 'running', 'up_for_retry')
                OR (task.state = 'scheduled' AND (pool.slots < 0 OR pool.slots >= task.pool_slots))) AS goes_on
        FROM task_instance AS task
        LEFT JOIN pool ON pool.name = task.pool
        WHERE task.dag_run_id = run.id AND task.state NOT IN ('success', 'failed', 'skipped', 'upstream_failed', 'removed')
    ) AS tasks
    WHERE run.state = 'running' AND coalesce(run.times_out_at > $1, true) AND tasks.waits AND NOT coalesce(tasks.goes_on, false)
)
SELECT
    (
        SELECT count(*) FROM dag_run AS run JOIN dag USING (dag_id)
        WHERE NOT dag.is_stopped
          AND (
              (run.state = 'running' AND run.id NOT IN (SELECT id FROM waiting))
              OR (
                  run.state = 'queued' AND run.run_after <= $1 AND NOT dag.is_stale
                  AND run.dag_id NOT IN (SELECT dag_id FROM waiting)
                  AND NOT coalesce((SELECT backfill.state = 'paused' FROM backfill WHERE backfill.id = run.backfill_id), false)
              )
          )
    ) AS runs,
    (SELECT count(*) FROM run_to_reconsider WHERE dag_run_id NOT IN (SELECT id FROM held_run)) AS reconsiderations,
    (SELECT count(*) FROM open_attempt WHERE dag_run_id NOT IN (SELECT id FROM held_run)) AS attempts,
    (
        SELECT count(*) FROM dag
        WHERE held_since IS NULL AND (due_at <= $1 OR dag_id IN (SELECT deferred_dag.dag_id FROM deferred_dag))
    ) AS dags,
    (
        SELECT count(*) FROM backfill
        WHERE backfill.due_at <= $1 AND backfill_is_active(backfill.state)
          AND (backfill.state = 'cancelling' OR NOT EXISTS (
              SELECT FROM dag WHERE dag.dag_id = backfill.dag_id AND held_since IS NOT NULL
          ))
    ) AS backfills,
    (SELECT count(*) FROM deadline
        WHERE due_at <= $1 AND met_at IS NULL AND missed_at IS NULL AND dag_run_id NOT IN (SELECT id FROM held_run)
    ) AS deadlines,
    (SELECT count(*) FROM notification WHERE state IN ('pending', 'sending')) AS notifications,
    (SELECT count(*) FROM outbox) AS outbox

-- name: held_dags
SELECT dag_id FROM dag WHERE held_since IS NOT NULL ORDER BY dag_id LIMIT 100

-- name: short_pools
-- The pools that never have the slots that tasks wait for, with the number of these tasks, the slots that one of them needs, and
-- a DAG. `slots` is NULL for a pool that does not exist.
SELECT task.pool, pool.slots, count(*) AS tasks, max(task.pool_slots) AS wanted, min(run.dag_id) AS dag_id
FROM task_instance AS task
JOIN dag_run AS run ON run.id = task.dag_run_id
JOIN dag ON dag.dag_id = run.dag_id AND NOT dag.is_stopped
LEFT JOIN pool ON pool.name = task.pool
WHERE task.state = 'scheduled' AND run.state = 'running' AND (pool.name IS NULL OR pool.slots BETWEEN 0 AND task.pool_slots - 1)
GROUP BY task.pool, pool.slots
ORDER BY task.pool
LIMIT 100

-- name: positions
SELECT key, next_offset FROM lease WHERE kind = 'partition'

-- name: parsed_in_vain
SELECT path FROM dag_file
WHERE digest = $1 AND parsed_at > (SELECT started_at FROM job WHERE id = $2)
