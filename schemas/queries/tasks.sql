-- name: instances
SELECT task.dag_run_id, task.task_index, task.state, task.try_number, task.upstream_success, task.upstream_failed
FROM unnest($1::bigint[], $2::integer[]) AS target (dag_run_id, task_index)
JOIN task_instance AS task USING (dag_run_id, task_index)

-- name: insert_tasks
INSERT INTO task_instance (dag_run_id, task_index, task_id, state, upstream_success, upstream_failed, end_date)
SELECT * FROM unnest(
    $1::bigint[], $2::integer[], $3::text[], $4::task_state[], $5::integer[], $6::integer[], $7::timestamptz[]
)

-- name: update_tasks
UPDATE task_instance AS task
SET state = change.state,
    try_number = change.try_number,
    upstream_success = change.upstream_success,
    upstream_failed = change.upstream_failed,
    next_try_at = change.next_try_at,
    start_date = coalesce(change.start_date, task.start_date),
    end_date = coalesce(change.end_date, task.end_date)
FROM unnest(
    $1::bigint[], $2::integer[], $3::task_state[], $4::integer[], $5::integer[], $6::integer[], $7::timestamptz[],
    $8::timestamptz[], $9::timestamptz[]
) AS change (
    dag_run_id, task_index, state, try_number, upstream_success, upstream_failed, next_try_at, start_date, end_date
)
WHERE task.dag_run_id = change.dag_run_id AND task.task_index = change.task_index

-- name: ready
-- Candidates only: nothing is locked yet, so each is looked at again under its run's lock.
(
    SELECT task.dag_run_id, task.task_index
    FROM task_instance AS task
    JOIN dag_run AS run ON run.id = task.dag_run_id
    JOIN dag USING (dag_id)
    WHERE task.pool = $1 AND task.state = 'scheduled' AND NOT dag.is_paused
    ORDER BY task.dag_run_id, task.task_index
    LIMIT $2
)
UNION ALL
(
    SELECT task.dag_run_id, task.task_index
    FROM task_instance AS task
    JOIN dag_run AS run ON run.id = task.dag_run_id
    JOIN dag USING (dag_id)
    WHERE task.pool = $1 AND task.state = 'up_for_retry' AND task.next_try_at <= clock_timestamp() AND NOT dag.is_paused
    ORDER BY task.next_try_at
    LIMIT $2
)

-- name: lock_pool
SELECT slots FROM pool WHERE name = $1 FOR UPDATE

-- name: occupied
SELECT count(*) FROM task_instance WHERE pool = $1 AND state IN ('queued', 'running')
