-- name: dag
-- The columns of the row lock of a DAG, without the lock; 0 stands for the reserved run id.
SELECT
    dag_id, version_id, is_paused, is_stale, 0 AS next_run_id, failed_runs, last_logical_date, last_interval_start,
    last_interval_end, due_at, timed_since, dataset_run_at, deadline_at, last_source, catchup_until,
    backfilled_by_txn
FROM dag
WHERE dag_id = $1

-- name: dag_status
SELECT
    dag.path, version.number AS version, dag.is_paused, dag.is_stale, dag.paused_at, dag.stale_at,
    dag.held_since, dag.hold_reason,
    error.reason AS import_error, error.at AS broken_since,
    ARRAY(
        SELECT run.run_id FROM dag_run AS run
        WHERE run.dag_id = dag.dag_id AND run.state = 'running' AND run.backfill_id IS NULL
        ORDER BY run.order_at, run.id
        LIMIT 5
    ) AS running
FROM dag
JOIN dag_version AS version ON version.id = dag.version_id
LEFT JOIN import_error AS error ON error.path = dag.path
WHERE dag.dag_id = $1

-- name: discards
SELECT reason, count(*) AS events, max(at) AS last_at
FROM (
    SELECT reason, at FROM discarded_dataset_event WHERE dag_id = $1 ORDER BY dataset_event_id DESC LIMIT 1000
) AS last
GROUP BY reason
ORDER BY last_at DESC

-- name: run_facts
-- The runs of a backfill are those of all its DAGs, but for the ones that start nothing now.
SELECT
    {run.RunView}, dag.version_id AS newest_version_id,
    CASE WHEN run.backfill_id IS NULL THEN (
        SELECT count(*) FROM dag_run AS other
        WHERE other.dag_id = run.dag_id AND other.state = 'running' AND other.backfill_id IS NULL
    ) ELSE (
        SELECT count(*) FROM dag_run AS other JOIN dag AS of_other ON of_other.dag_id = other.dag_id
        WHERE other.backfill_id = run.backfill_id AND other.state = 'running' AND of_other.held_since IS NULL
    ) END AS running_runs,
    CASE WHEN run.backfill_id IS NULL THEN (
        SELECT count(*) FROM dag_run AS other
        WHERE other.dag_id = run.dag_id AND other.state = 'queued' AND other.run_after <= $3 AND other.backfill_id IS NULL
          AND (other.order_at, other.id) < (run.order_at, run.id)
    ) ELSE (
        SELECT count(*) FROM dag_run AS other JOIN dag AS of_other ON of_other.dag_id = other.dag_id
        WHERE other.backfill_id = run.backfill_id AND other.state = 'queued'
          AND of_other.held_since IS NULL AND NOT of_other.is_paused AND NOT of_other.is_stale
          AND CASE
              WHEN other.order_at = run.order_at THEN other.id < run.id
              ELSE (other.order_at < run.order_at) <> (SELECT is_reverse FROM backfill WHERE id = run.backfill_id)
          END
    ) END AS runs_ahead,
    (
        SELECT other.run_id FROM dag_run AS other
        WHERE other.dag_id = run.dag_id AND other.order_at IS NOT NULL AND (other.order_at, other.id) < (run.order_at, run.id)
        ORDER BY other.order_at DESC, other.id DESC
        LIMIT 1
    ) AS run_before,
    version.number AS version, run.created_at, run.end_date,
    coalesce(run.events, (SELECT count(*) FROM dagrun_dataset_event AS consumed WHERE consumed.dag_run_id = run.id)) AS events,
    (SELECT last.reason FROM run_state_change AS last WHERE last.dag_run_id = run.id ORDER BY last.seq DESC LIMIT 1) AS reason
FROM dag_run AS run
JOIN dag USING (dag_id)
JOIN dag_version AS version ON version.id = run.version_id
WHERE run.dag_id = $1 AND run.run_id = $2

-- name: inactive_dag
-- A DAG beside this one that keeps a backfill from starting runs: that of its dates, or that of its stage.
SELECT
    dag.dag_id,
    CASE WHEN dag.held_since IS NOT NULL THEN 'held' WHEN dag.is_stale THEN 'stale' ELSE 'paused' END AS state,
    dag.path
FROM backfill
JOIN dag ON dag.dag_id IN (backfill.dag_id, backfill.stages ->> (nullif(backfill.stage, 0) - 1))
WHERE backfill.id = $1 AND dag.dag_id <> $2 AND (dag.held_since IS NOT NULL OR dag.is_stale OR dag.is_paused)
ORDER BY dag.dag_id = backfill.dag_id DESC
LIMIT 1

-- name: task_row
SELECT pool, scheduled_at, end_date, reason FROM task_instance WHERE dag_run_id = $1 AND task_index = $2

-- name: queue_before
SELECT task.dag_run_id, task.task_index
FROM task_instance AS mine
JOIN task_instance AS task ON task.pool = mine.pool AND task.state = 'scheduled'
    AND (task.rank, task.order_at, task.dag_run_id, task.task_index)
        < (mine.rank, mine.order_at, mine.dag_run_id, mine.task_index)
WHERE mine.dag_run_id = $1 AND mine.task_index = $2
ORDER BY task.rank, task.order_at, task.dag_run_id, task.task_index
LIMIT $3

-- name: occupying
SELECT run.dag_id, run.run_id, task.task_id, task.task_index, task.pool_slots, task.start_date
FROM occupying_task AS task
JOIN dag_run AS run ON run.id = task.dag_run_id
WHERE ($1::text IS NULL OR task.pool = $1)
  AND ($2::bigint IS NULL OR task.dag_run_id = $2)
  AND ($3::text IS NULL OR (run.dag_id = $3 AND task.task_id = $4 AND coalesce(task.per_dag, task.per_run) IS NOT NULL))
ORDER BY task.start_date, run.id, task.task_index
LIMIT $5

-- name: attempt
SELECT
    attempt.backend, attempt.state, attempt.created_at, attempt.submitted_at, attempt.started_at, attempt.heartbeat_at,
    attempt.ended_at, attempt.host, attempt.reason, attempt.kill_reason,
    (
        SELECT count(*) FROM submission AS other
        WHERE attempt.state = 'intent' AND other.state = 'intent' AND other.backend = attempt.backend
          AND (other.created_at, other.dag_run_id, other.task_index)
              < (attempt.created_at, attempt.dag_run_id, attempt.task_index)
    ) AS ahead,
    EXISTS (SELECT FROM live_job WHERE live_job.id = attempt.owner) AS has_owner, attempt.cluster
FROM task_instance AS task
JOIN submission AS attempt USING (dag_run_id, task_index, try_number)
WHERE task.dag_run_id = $1 AND task.task_index = $2

-- name: open_attempts
SELECT
    attempt.task_index, attempt.backend, attempt.host,
    coalesce(attempt.started_at, attempt.submitted_at, attempt.created_at) AS since
FROM occupying_task AS task
JOIN submission AS attempt USING (dag_run_id, task_index, try_number)
WHERE task.dag_run_id = $1

-- name: scheduled_with_open_attempt
SELECT DISTINCT attempt.task_index
FROM task_instance AS task
JOIN open_attempt AS attempt USING (dag_run_id, task_index)
WHERE task.dag_run_id = $1 AND task.state = 'scheduled' AND task.try_number > 0
