-- name: lock
SELECT
    id, dag_id, run_id, run_type, state, version_id, run_after,
    state_seq, task_seq, unfinished, failed_leaves, start_date, active_tasks, max_active_tasks, logical_date,
    data_interval_start, data_interval_end, times_out_at
FROM dag_run
WHERE id = ANY ($1::bigint[])
ORDER BY id
FOR NO KEY UPDATE

-- name: lock_of_attempts
-- The runs of these attempts; which run an attempt belongs to never changes.
SELECT
    id, dag_id, run_id, run_type, state, version_id, run_after,
    state_seq, task_seq, unfinished, failed_leaves, start_date, active_tasks, max_active_tasks, logical_date,
    data_interval_start, data_interval_end, times_out_at
FROM dag_run
WHERE id IN (SELECT dag_run_id FROM submission WHERE submission_id = ANY ($1::uuid[]))
ORDER BY id
FOR NO KEY UPDATE

-- name: views
-- As `lock`, without it.
SELECT
    id, dag_id, run_id, run_type, state, version_id, run_after,
    state_seq, task_seq, unfinished, failed_leaves, start_date, active_tasks, max_active_tasks, logical_date,
    data_interval_start, data_interval_end, times_out_at
FROM dag_run
WHERE id = ANY ($1::bigint[])

-- name: find_runs
SELECT id
FROM dag_run
WHERE dag_id = $1
  AND ($2::text IS NULL OR run_id = $2)
  AND ($3::timestamptz IS NULL OR order_at >= $3)
  AND ($4::timestamptz IS NULL OR order_at <= $4)
ORDER BY id

-- name: change_version
UPDATE dag_run
SET version_id = change.version_id, max_active_tasks = change.max_active_tasks
FROM unnest($1::bigint[], $2::bigint[], $3::integer[]) AS change (dag_run_id, version_id, max_active_tasks)
WHERE dag_run.id = change.dag_run_id

-- name: set_aside_tasks
-- No two rows may have one index at any moment: all leave their places first.
UPDATE task_instance SET task_index = -1000000 - task_index WHERE dag_run_id = ANY ($1::bigint[]) AND task_index >= 0

-- name: place_tasks
UPDATE task_instance AS task
SET task_index = change.new, state = CASE WHEN change.new < 0 THEN 'removed' ELSE task.state END
FROM unnest($1::bigint[], $2::integer[], $3::integer[]) AS change (dag_run_id, old, new)
WHERE task.dag_run_id = change.dag_run_id AND task.task_index = -1000000 - change.old

-- name: set_aside_attempts
UPDATE submission SET task_index = -1000000 - task_index WHERE dag_run_id = ANY ($1::bigint[]) AND task_index >= 0

-- name: place_attempts
UPDATE submission AS attempt
SET task_index = change.new
FROM unnest($1::bigint[], $2::integer[], $3::integer[]) AS change (dag_run_id, old, new)
WHERE attempt.dag_run_id = change.dag_run_id AND attempt.task_index = -1000000 - change.old

-- name: set_aside_results
UPDATE task_result SET task_index = -1000000 - task_index WHERE dag_run_id = ANY ($1::bigint[]) AND task_index >= 0

-- name: place_results
UPDATE task_result AS result
SET task_index = change.new
FROM unnest($1::bigint[], $2::integer[], $3::integer[]) AS change (dag_run_id, old, new)
WHERE result.dag_run_id = change.dag_run_id AND result.task_index = -1000000 - change.old

-- name: dags_of
SELECT DISTINCT dag_id FROM dag_run WHERE id = ANY ($1::bigint[])

-- name: reconsider
INSERT INTO run_to_reconsider AS waiting (dag_run_id, stop_reason)
SELECT dag_run_id, max(stop_reason)
FROM unnest($1::bigint[], $2::text[]) AS asked (dag_run_id, stop_reason)
GROUP BY dag_run_id
ON CONFLICT (dag_run_id) DO UPDATE SET stop_reason = coalesce(waiting.stop_reason, excluded.stop_reason)

-- name: reconsider_after
INSERT INTO run_to_reconsider (dag_run_id)
SELECT DISTINCT later.id
FROM unnest($1::text[], $2::bigint[]) AS ended (dag_id, id)
JOIN dag_run AS run ON run.id = ended.id
JOIN dag_run AS later ON later.dag_id = ended.dag_id
    AND later.state = 'running' AND (later.order_at, later.id) > (run.order_at, run.id)
ON CONFLICT (dag_run_id) DO NOTHING

-- name: to_reconsider
SELECT dag_run_id FROM run_to_reconsider ORDER BY created_at LIMIT $1

-- name: take_up
DELETE FROM run_to_reconsider WHERE dag_run_id = ANY ($1::bigint[]) RETURNING dag_run_id, stop_reason

-- name: run_before
SELECT run.id, earlier.id, earlier.state
FROM dag_run AS run
CROSS JOIN LATERAL (
    SELECT other.id, other.state
    FROM dag_run AS other
    WHERE other.dag_id = run.dag_id AND (other.order_at, other.id) < (run.order_at, run.id)
      AND other.order_at IS NOT NULL
    ORDER BY other.order_at DESC, other.id DESC
    LIMIT 1
) AS earlier
WHERE run.id = ANY ($1::bigint[])

-- name: insert_runs
INSERT INTO dag_run (
    id, dag_id, run_id, run_type, state, version_id, run_after, logical_date, data_interval_start, data_interval_end,
    max_active_tasks, conf, state_seq, task_seq, unfinished, failed_leaves, start_date, end_date, times_out_at, created_by,
    creator, created_upon
)
SELECT *, $20::uuid, $21::text, $22::text FROM unnest(
    $1::bigint[], $2::text[], $3::text[], $4::run_type[], $5::run_state[], $6::bigint[], $7::timestamptz[], $8::timestamptz[],
    $9::timestamptz[], $10::timestamptz[], $11::integer[], $12::jsonb[], $13::integer[], $14::integer[], $15::integer[],
    $16::integer[], $17::timestamptz[], $18::timestamptz[], $19::timestamptz[]
)

-- name: update_runs
UPDATE dag_run
SET state = change.state,
    state_seq = change.state_seq,
    task_seq = change.task_seq,
    unfinished = change.unfinished,
    failed_leaves = change.failed_leaves,
    active_tasks = change.active_tasks,
    start_date = CASE WHEN change.state <> 'queued' THEN coalesce(change.start_date, dag_run.start_date) END,
    end_date = CASE WHEN change.state <> 'queued' THEN coalesce(change.end_date, dag_run.end_date) END,
    times_out_at = CASE WHEN change.state <> 'queued' THEN coalesce(change.times_out_at, dag_run.times_out_at) END
FROM unnest(
    $1::bigint[], $2::run_state[], $3::integer[], $4::integer[], $5::integer[], $6::integer[], $7::integer[], $8::timestamptz[],
    $9::timestamptz[], $10::timestamptz[]
) AS change (id, state, state_seq, task_seq, unfinished, failed_leaves, active_tasks, start_date, end_date, times_out_at)
WHERE dag_run.id = change.id

-- name: log_moves
INSERT INTO run_state_log (dag_run_id, seq, state, reason, at)
SELECT * FROM unnest($1::bigint[], $2::integer[], $3::run_state[], $4::text[], $5::timestamptz[])

-- name: exists
SELECT FROM dag_run WHERE dag_id = $1 AND run_id = $2

-- name: run_of_date
SELECT run_id FROM dag_run WHERE dag_id = $1 AND logical_date = $2

-- name: list_runs
SELECT
    run.dag_id, run.run_id, run.run_type, run.state, run.run_after, run.created_at, run.start_date, run.end_date,
    version.number AS version, run.unfinished, jsonb_array_length(coalesce(version.spec -> 'tasks', '[]')) AS tasks,
    run.logical_date, run.data_interval_start, run.data_interval_end,
    extract(epoch FROM run.start_date - run.run_after)::double precision AS schedule_delay_s
FROM dag_run AS run
JOIN dag_version AS version ON version.id = run.version_id
WHERE ($1::text IS NULL OR run.dag_id = $1)
  AND ($2::run_state IS NULL OR run.state = $2)
  AND ($3::text IS NULL OR run.run_id = $3)
  AND ($5::run_type IS NULL OR run.run_type = $5)
  AND ($6::timestamptz IS NULL OR run.order_at >= $6)
  AND ($7::timestamptz IS NULL OR run.order_at <= $7)
ORDER BY run.id DESC
LIMIT $4

-- name: run_events
SELECT dataset.uri, event.source, event.event_id, event.occurred_at, event.extra
FROM dag_run AS run
JOIN dagrun_dataset_event AS consumed ON consumed.dag_run_id = run.id
JOIN dataset_event AS event ON event.id = consumed.dataset_event_id
JOIN dataset ON dataset.id = event.dataset_id
WHERE run.dag_id = $1 AND run.run_id = $2
ORDER BY event.occurred_at, event.id

-- name: run_tasks
-- The instances of a mapped task are called `load[3]`, and follow it; tasks that the run has no more come last.
SELECT
    task.task_id || CASE WHEN task.task_index < 1048576 THEN '' ELSE '[' || (task.task_index - 1048576) % 16384 || ']' END
        AS task_id,
    task.state, task.try_number, task.start_date, task.end_date, task.next_try_at,
    submission.submission_id, submission.backend, submission.state AS submission_state, submission.reason
FROM dag_run AS run
JOIN task_instance AS task ON task.dag_run_id = run.id
LEFT JOIN submission ON (submission.dag_run_id, submission.task_index, submission.try_number)
    = (task.dag_run_id, task.task_index, task.try_number)
WHERE run.dag_id = $1 AND run.run_id = $2
ORDER BY
    task.task_index < 0,
    CASE WHEN task.task_index < 1048576 THEN task.task_index ELSE (task.task_index - 1048576) / 16384 END,
    task.task_index

-- name: run_conf
SELECT conf FROM dag_run WHERE dag_id = $1 AND run_id = $2

-- name: run_journal
SELECT log.seq, log.state, log.reason, log.at
FROM dag_run AS run
JOIN run_state_log AS log ON log.dag_run_id = run.id
WHERE run.dag_id = $1 AND run.run_id = $2
ORDER BY log.seq

-- name: run_attempts
SELECT
    task.task_id || CASE WHEN task.task_index < 1048576 THEN '' ELSE '[' || (task.task_index - 1048576) % 16384 || ']' END
        AS task_id,
    submission.try_number, submission.submission_id, submission.backend, submission.state, submission.host,
    submission.reason, submission.exit_code, submission.created_at, submission.submitted_at, submission.started_at,
    submission.ended_at
FROM dag_run AS run
JOIN task_instance AS task ON task.dag_run_id = run.id
JOIN submission ON (submission.dag_run_id, submission.task_index) = (task.dag_run_id, task.task_index)
WHERE run.dag_id = $1 AND run.run_id = $2
ORDER BY submission.task_index, submission.try_number
