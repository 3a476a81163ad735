-- name: lock
SELECT
    id, dag_id, run_id, run_type, state, version_id, run_after,
    state_seq, task_seq, unfinished, failed_leaves, start_date
FROM dag_run
WHERE id = ANY ($1::bigint[])
ORDER BY id
FOR NO KEY UPDATE

-- name: insert_runs
INSERT INTO dag_run (
    id, dag_id, run_id, run_type, state, version_id, run_after, conf,
    state_seq, task_seq, unfinished, failed_leaves, start_date, end_date
)
SELECT * FROM unnest(
    $1::bigint[], $2::text[], $3::text[], $4::run_type[], $5::run_state[], $6::bigint[], $7::timestamptz[], $8::jsonb[],
    $9::integer[], $10::integer[], $11::integer[], $12::integer[], $13::timestamptz[], $14::timestamptz[]
)

-- name: update_runs
UPDATE dag_run
SET state = change.state,
    state_seq = change.state_seq,
    task_seq = change.task_seq,
    unfinished = change.unfinished,
    failed_leaves = change.failed_leaves,
    start_date = coalesce(change.start_date, dag_run.start_date),
    end_date = coalesce(change.end_date, dag_run.end_date)
FROM unnest(
    $1::bigint[], $2::run_state[], $3::integer[], $4::integer[], $5::integer[], $6::integer[], $7::timestamptz[],
    $8::timestamptz[]
) AS change (id, state, state_seq, task_seq, unfinished, failed_leaves, start_date, end_date)
WHERE dag_run.id = change.id

-- name: log_moves
INSERT INTO run_state_log (dag_run_id, seq, state, reason, at)
SELECT * FROM unnest($1::bigint[], $2::integer[], $3::run_state[], $4::text[], $5::timestamptz[])

-- name: exists
SELECT FROM dag_run WHERE dag_id = $1 AND run_id = $2

-- name: list_runs
SELECT
    run.dag_id, run.run_id, run.run_type, run.state, run.run_after, run.created_at, run.start_date, run.end_date,
    version.number AS version, run.unfinished, jsonb_array_length(version.spec -> 'tasks') AS tasks
FROM dag_run AS run
JOIN dag_version AS version ON version.id = run.version_id
WHERE ($1::text IS NULL OR run.dag_id = $1)
  AND ($2::run_state IS NULL OR run.state = $2)
  AND ($3::text IS NULL OR run.run_id = $3)
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
SELECT
    task.task_id, task.state, task.try_number, task.start_date, task.end_date, task.next_try_at,
    submission.submission_id, submission.backend, submission.state AS submission_state, submission.reason
FROM dag_run AS run
JOIN task_instance AS task ON task.dag_run_id = run.id
LEFT JOIN submission ON (submission.dag_run_id, submission.task_index, submission.try_number)
    = (task.dag_run_id, task.task_index, task.try_number)
WHERE run.dag_id = $1 AND run.run_id = $2
ORDER BY task.task_index

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
    task.task_id, submission.try_number, submission.submission_id, submission.backend, submission.state, submission.host,
    submission.reason, submission.exit_code, submission.created_at, submission.submitted_at, submission.started_at,
    submission.ended_at
FROM dag_run AS run
JOIN task_instance AS task ON task.dag_run_id = run.id
JOIN submission ON (submission.dag_run_id, submission.task_index) = (task.dag_run_id, task.task_index)
WHERE run.dag_id = $1 AND run.run_id = $2
ORDER BY submission.task_index, submission.try_number
