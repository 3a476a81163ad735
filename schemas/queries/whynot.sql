-- name: circumstances
-- What is known around a run beside its own row. The state that it is in it came to by the last move of its journal.
SELECT
    dag.path, dag.paused_at, dag.stale_at, error.reason AS import_error, error.at AS broken_since, version.number AS version,
    run.created_at, run.end_date,
    coalesce(run.events, (SELECT count(*) FROM dagrun_dataset_event AS consumed WHERE consumed.dag_run_id = run.id)) AS events,
    (SELECT log.reason FROM run_state_log AS log WHERE log.dag_run_id = run.id ORDER BY log.seq DESC LIMIT 1) AS reason,
    ARRAY(
        SELECT other.run_id FROM dag_run AS other
        WHERE other.dag_id = run.dag_id AND other.state = 'running'
        ORDER BY other.order_at, other.id
        LIMIT 5
    ) AS running
FROM dag_run AS run
JOIN dag USING (dag_id)
JOIN dag_version AS version ON version.id = run.version_id
LEFT JOIN import_error AS error ON error.path = dag.path
WHERE run.id = $1

-- name: place
-- Where a task instance waits or waited, and since when.
SELECT pool, pool_slots, scheduled_at, start_date, end_date FROM task_instance WHERE dag_run_id = $1 AND task_index = $2

-- name: before
-- Those that come before a task instance in the queue of its pool, in their order.
SELECT task.dag_run_id, task.task_index
FROM task_instance AS mine
JOIN task_instance AS task ON task.pool = mine.pool AND task.state = 'scheduled'
    AND (task.rank, task.order_at, task.dag_run_id, task.task_index)
        < (mine.rank, mine.order_at, mine.dag_run_id, mine.task_index)
WHERE mine.dag_run_id = $1 AND mine.task_index = $2
ORDER BY task.rank, task.order_at, task.dag_run_id, task.task_index
LIMIT $3

-- name: at_work_in_pool
SELECT run.dag_id, run.run_id, task.task_id, task.task_index, task.pool_slots, task.start_date
FROM task_instance AS task
JOIN dag_run AS run ON run.id = task.dag_run_id
WHERE task.pool = $1 AND task.state IN ('queued', 'running')
ORDER BY task.start_date, run.id, task.task_index
LIMIT $2

-- name: at_work_in_run
SELECT run.dag_id, run.run_id, task.task_id, task.task_index, task.pool_slots, task.start_date
FROM task_instance AS task
JOIN dag_run AS run ON run.id = task.dag_run_id
WHERE task.dag_run_id = $1 AND task.state IN ('queued', 'running')
ORDER BY task.start_date, task.task_index
LIMIT $2

-- name: at_work_of_task
SELECT run.dag_id, run.run_id, task.task_id, task.task_index, task.pool_slots, task.start_date
FROM task_instance AS task
JOIN dag_run AS run ON run.id = task.dag_run_id
WHERE task.task_id = $1 AND run.dag_id = $2 AND task.state IN ('queued', 'running')
  AND (task.per_dag IS NOT NULL OR task.per_run IS NOT NULL)
ORDER BY task.start_date, run.id, task.task_index
LIMIT $3

-- name: attempt
-- The newest attempt of a task instance, how many intents come before it on its backend, and whether who has it shows life.
SELECT
    attempt.backend, attempt.state, attempt.created_at, attempt.submitted_at, attempt.started_at, attempt.heartbeat_at,
    attempt.ended_at, attempt.host, attempt.reason, attempt.kill_reason,
    (
        SELECT count(*) FROM submission AS other
        WHERE attempt.state = 'intent' AND other.state = 'intent' AND other.backend = attempt.backend
          AND (other.created_at, other.dag_run_id, other.task_index)
              < (attempt.created_at, attempt.dag_run_id, attempt.task_index)
    ) AS ahead,
    EXISTS (SELECT FROM live_job WHERE live_job.id = attempt.owner) AS has_owner
FROM task_instance AS task
JOIN submission AS attempt USING (dag_run_id, task_index, try_number)
WHERE task.dag_run_id = $1 AND task.task_index = $2
