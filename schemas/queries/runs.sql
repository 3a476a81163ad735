-- name: lock
-- Without `held_run`: planned while its tables are empty, the anti-join would later read all DAGs.
SELECT {run.RunView}
FROM dag_run AS run
WHERE run.id = ANY ($1::bigint[])
  AND NOT {held_row run}
ORDER BY run.id
FOR NO KEY UPDATE

-- name: lock_unread
-- As `lock`, also runs of held DAGs.
SELECT {run.RunView}
FROM dag_run AS run
WHERE run.id = ANY ($1::bigint[])
ORDER BY run.id
FOR NO KEY UPDATE

-- name: lock_of_attempts
-- The runs of these attempts. The run of an attempt never changes.
SELECT {run.RunView}
FROM dag_run AS run
WHERE run.id IN (SELECT dag_run_id FROM submission WHERE submission_id = ANY ($1::uuid[]))
  AND NOT {held_row run}
ORDER BY run.id
FOR NO KEY UPDATE

-- name: any_unfinished
SELECT EXISTS (SELECT FROM dag_run WHERE dag_id = $1 AND state IN ('queued', 'running'))

-- name: views
-- As `lock`, without locks.
SELECT {run.RunView}
FROM dag_run AS run
WHERE run.id = ANY ($1::bigint[])

-- name: find_runs
SELECT id
FROM dag_run
WHERE dag_id = $1
  AND ($2::text IS NULL OR run_id = $2)
  AND ($3::timestamptz IS NULL OR order_at >= $3)
  AND ($4::timestamptz IS NULL OR order_at <= $4)
ORDER BY id

-- name: named
SELECT id FROM dag_run WHERE dag_id = $1 AND run_id = ANY ($2::text[]) ORDER BY id

-- name: active_of
SELECT id FROM dag_run WHERE dag_id = $1 AND run_id = ANY ($2::text[]) AND state IN ('queued', 'running') ORDER BY id

-- name: active_names
SELECT run_id FROM dag_run WHERE dag_id = $1 AND run_id = ANY ($2::text[]) AND state IN ('queued', 'running') ORDER BY id

-- name: change_version
UPDATE dag_run
SET version_id = change.version_id, max_active_tasks = change.max_active_tasks, times_out_at = change.times_out_at
FROM unnest($1::bigint[], $2::bigint[], $3::integer[], $4::timestamptz[])
    AS change (dag_run_id, version_id, max_active_tasks, times_out_at)
WHERE dag_run.id = change.dag_run_id

-- name: announce
UPDATE dag_run
SET announced = change.announced
FROM unnest($1::bigint[], $2::jsonb[]) AS change (dag_run_id, announced)
WHERE dag_run.id = change.dag_run_id

-- name: lowest_indices
-- Of tasks that were removed at earlier changes.
SELECT dag_run_id, min(task_index) FROM task_instance WHERE dag_run_id = ANY ($1::bigint[]) AND task_index < 0 GROUP BY dag_run_id

-- name: set_aside_tasks
-- Two rows may never have the same index, so all rows leave their indices first.
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
SELECT DISTINCT next.id
FROM unnest($1::text[], $2::bigint[]) AS ended (dag_id, id)
JOIN dag_run AS run ON run.id = ended.id
CROSS JOIN LATERAL (
    SELECT later.id, later.state
    FROM dag_run AS later
    WHERE later.dag_id = ended.dag_id AND (later.order_at, later.id) > (run.order_at, run.id) AND later.order_at IS NOT NULL
    ORDER BY later.order_at, later.id
    LIMIT 1
) AS next
WHERE next.state = 'running'
ON CONFLICT (dag_run_id) DO NOTHING

-- name: reconsider_after_other_versions
-- Running runs whose tasks wait for a run of another version: its decisions may not know that tasks wait.
INSERT INTO run_to_reconsider (dag_run_id)
SELECT run.id
FROM dag
CROSS JOIN LATERAL (
    SELECT running.id, running.version_id, running.order_at
    FROM dag_run AS running
    WHERE running.dag_id = dag.dag_id AND running.state = 'running'
    OFFSET 0
) AS run
CROSS JOIN LATERAL (
    SELECT earlier.version_id
    FROM dag_run AS earlier
    WHERE earlier.dag_id = dag.dag_id AND (earlier.order_at, earlier.id) < (run.order_at, run.id) AND earlier.order_at IS NOT NULL
    ORDER BY earlier.order_at DESC, earlier.id DESC
    LIMIT 1
) AS previous
CROSS JOIN LATERAL (
    SELECT true FROM task_instance AS task WHERE task.dag_run_id = run.id AND task.waits_for_past AND task.state = 'none' LIMIT 1
) AS waiting
WHERE dag.held_since IS NULL AND previous.version_id <> run.version_id
ORDER BY run.id
ON CONFLICT (dag_run_id) DO NOTHING

-- name: to_reconsider
SELECT dag_run_id FROM run_to_reconsider
WHERE NOT {held dag_run_id} AND dag_run_id <> ALL ($2::bigint[])
ORDER BY created_at LIMIT $1

-- name: dequeue_reconsiderations
-- A request whose run another program deleted, or a restore left out, is done: else it would stay for ever.
DELETE FROM run_to_reconsider AS request
WHERE request.dag_run_id = ANY ($1::bigint[])
  AND (request.dag_run_id = ANY ($2::bigint[]) OR NOT EXISTS (SELECT FROM dag_run AS run WHERE run.id = request.dag_run_id))
RETURNING request.dag_run_id, request.stop_reason

-- name: run_before
-- The run of the first date of a backfill may have none that it waits for.
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
WHERE run.id = ANY ($1::bigint[]) AND NOT EXISTS (
    SELECT FROM backfill JOIN backfill_date AS date ON date.backfill_id = backfill.id AND date.ordinal = 1
    WHERE backfill.id = run.backfill_id AND backfill.ignore_first_depends_on_past AND date.dag_run_id = run.id
)

-- name: insert_runs
INSERT INTO dag_run (
    id, state, state_seq, task_seq, unfinished, failed_leaves, active_tasks, start_date, times_out_at, dag_id, run_id, run_type,
    version_id, run_after, max_active_tasks, logical_date, data_interval_start, data_interval_end, backfill_id, pool, priority,
    updates_outlets, announced, end_date, conf, events, events_left, created_by, creator, cause, created_at
)
SELECT *, $28::uuid, $29::text, $30::text, $31::timestamptz FROM unnest(
    $1::bigint[], $2::run_state[], $3::integer[], $4::integer[], $5::integer[], $6::integer[], $7::integer[], $8::timestamptz[],
    $9::timestamptz[], $10::text[], $11::text[], $12::run_type[], $13::bigint[], $14::timestamptz[], $15::integer[],
    $16::timestamptz[], $17::timestamptz[], $18::timestamptz[], $19::bigint[], $20::text[], $21::integer[], $22::boolean[],
    $23::jsonb[], $24::timestamptz[], $25::jsonb[], $26::integer[], $27::integer[]
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
) AS change (id, state, state_seq, task_seq, unfinished, failed_leaves, active_tasks, start_date, times_out_at, end_date)
WHERE dag_run.id = change.id

-- name: log_moves
INSERT INTO run_state_log (dag_run_id, seq, state, reason, at)
SELECT * FROM unnest($1::bigint[], $2::integer[], $3::run_state[], $4::text[], $5::timestamptz[])

-- name: exists
SELECT FROM dag_run WHERE dag_id = $1 AND run_id = $2

-- name: run_of_date
SELECT run_id FROM dag_run WHERE dag_id = $1 AND logical_date = $2
