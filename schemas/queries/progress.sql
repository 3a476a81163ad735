-- name: run_facts
-- A run and its DAG, as they are at the moment: nothing is locked.
SELECT
    {run.RunView}, dag.version_id AS newest_version_id, dag.is_paused, dag.is_stale,
    (SELECT count(*) FROM dag_run AS other WHERE other.dag_id = run.dag_id AND other.state = 'running') AS running_runs,
    (
        SELECT count(*) FROM dag_run AS other
        WHERE other.dag_id = run.dag_id AND other.state = 'queued' AND other.run_after <= $3
          AND (other.order_at, other.id) < (run.order_at, run.id)
    ) AS runs_ahead,
    (
        SELECT other.run_id FROM dag_run AS other
        WHERE other.dag_id = run.dag_id AND other.order_at IS NOT NULL AND (other.order_at, other.id) < (run.order_at, run.id)
        ORDER BY other.order_at DESC, other.id DESC
        LIMIT 1
    ) AS run_before
FROM dag_run AS run
JOIN dag USING (dag_id)
WHERE run.dag_id = $1 AND run.run_id = $2

-- name: newest_attempts
SELECT
    attempt.task_index, attempt.backend, attempt.host,
    coalesce(attempt.started_at, attempt.submitted_at, attempt.created_at) AS since
FROM task_instance AS task
JOIN submission AS attempt USING (dag_run_id, task_index, try_number)
WHERE task.dag_run_id = $1 AND task.state IN ('queued', 'running')

-- name: still_attempted
-- Tasks that wait for slots although an attempt of theirs has not ended.
SELECT DISTINCT attempt.task_index
FROM task_instance AS task
JOIN submission AS attempt USING (dag_run_id, task_index)
WHERE task.dag_run_id = $1 AND task.state = 'scheduled' AND task.try_number > 0
  AND attempt.state IN ('intent', 'submitting', 'accepted')
