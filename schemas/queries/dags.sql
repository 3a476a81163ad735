-- name: lock
-- The row lock protects all decisions about the DAG. The rows that it protects are read by the next statement, because the
-- snapshot of this one may be older than the lock.
SELECT
    dag_id, version_id, is_paused, is_stale, nextval('dag_run_id_seq') AS next_run_id, failed_runs, last_logical_date,
    last_interval_start, last_interval_end, due_at, timed_since, dataset_run_at, deadline_at, last_source, catchup_until,
    backfilled_by_txn
FROM dag
WHERE dag_id = ANY ($1::text[]) AND held_since IS NULL
ORDER BY dag_id
FOR NO KEY UPDATE

-- name: lock_unread
-- As `lock`, also held DAGs.
SELECT dag_id, version_id, is_paused OR is_stale AS is_inactive, is_stale, held_since IS NOT NULL AS is_held
FROM dag
WHERE dag_id = ANY ($1::text[])
ORDER BY dag_id
FOR NO KEY UPDATE

-- name: activity
-- Of live runs: those of backfills have limits of their own.
-- LIMIT prevents a hash join over the whole queue, which the planner prefers while its statistics show a small queue.
SELECT
    target.dag_id,
    (
        SELECT count(*) FROM dag_run WHERE dag_run.dag_id = target.dag_id AND state = 'running' AND backfill_id IS NULL
    ) AS running,
    (
        SELECT count(*) FROM dag_run
        WHERE dag_run.dag_id = target.dag_id AND state = 'queued' AND run_after <= $2 AND backfill_id IS NULL
    ) AS queued,
    (
        SELECT min(run_after) FROM dag_run
        WHERE dag_run.dag_id = target.dag_id AND state = 'queued' AND run_after > $2 AND backfill_id IS NULL
    ) AS next_queued_at,
    (
        SELECT dataset_id FROM dataset_dag_run_queue AS queue
        WHERE queue.target_dag_id = target.dag_id AND queue.dataset_event_id >= target.low_watermark
        ORDER BY target_dag_id, dataset_event_id
        LIMIT 1
    ) AS oldest_dataset_id
FROM unnest($1::text[], $3::bigint[]) AS target (dag_id, low_watermark)

-- name: run_dates
SELECT target.dag_id, run.logical_date
FROM unnest($1::text[], $2::timestamptz[]) AS target (dag_id, since)
CROSS JOIN LATERAL (
    SELECT logical_date FROM dag_run
    WHERE dag_run.dag_id = target.dag_id AND logical_date >= target.since
    ORDER BY dag_id, logical_date
    LIMIT $3
) AS run

-- name: reserve_runs
SELECT nextval('dag_run_id_seq') FROM generate_series(1, $1)

-- name: update_schedule
UPDATE dag
SET last_logical_date = change.last_logical_date,
    last_interval_start = change.last_interval_start,
    last_interval_end = change.last_interval_end,
    due_at = change.due_at,
    dataset_run_at = change.dataset_run_at,
    deadline_at = change.deadline_at,
    last_source = change.last_source,
    catchup_until = change.catchup_until
FROM unnest(
    $1::text[], $2::timestamptz[], $3::timestamptz[], $4::timestamptz[], $5::timestamptz[], $6::timestamptz[], $7::timestamptz[],
    $8::text[], $9::timestamptz[]
) AS change (
    dag_id, last_logical_date, last_interval_start, last_interval_end, due_at, dataset_run_at, deadline_at, last_source,
    catchup_until
)
WHERE dag.dag_id = change.dag_id

-- name: wake
UPDATE dag SET due_at = least(due_at, woken.at)
FROM unnest($1::text[], $2::timestamptz[]) AS woken (dag_id, at)
WHERE dag.dag_id = woken.dag_id

-- name: defer
-- Another session has the row of the DAG. The row here is locked, so that a decision that takes it sees the events of this one.
INSERT INTO deferred_dag (dag_id, at)
SELECT * FROM unnest($1::text[], $2::timestamptz[]) AS deferred (dag_id, at)
ORDER BY dag_id
ON CONFLICT (dag_id) DO UPDATE SET at = least(deferred_dag.at, excluded.at)

-- name: take_deferred
DELETE FROM deferred_dag
WHERE dag_id = ANY (ARRAY(SELECT dag_id FROM deferred_dag WHERE dag_id = ANY ($1::text[]) ORDER BY dag_id FOR UPDATE))

-- name: release
UPDATE dag SET held_since = NULL, hold_reason = NULL, released_at = clock_timestamp(), due_at = released.at
FROM unnest($1::text[], $2::timestamptz[]) AS released (dag_id, at)
WHERE dag.dag_id = released.dag_id

-- name: note_schedule
INSERT INTO schedule_note (dag_id, kind, reason, first_at, last_at)
SELECT note.*, note.at FROM unnest($1::text[], $2::text[], $3::text[], $4::timestamptz[]) AS note (dag_id, kind, reason, at)
ON CONFLICT (dag_id, kind, reason) DO UPDATE SET last_at = excluded.last_at, times = schedule_note.times + 1

-- name: count_failures
UPDATE dag SET failed_runs = change.failed_runs
FROM unnest($1::text[], $2::integer[]) AS change (dag_id, failed_runs)
WHERE dag.dag_id = change.dag_id

-- name: queued_runs
-- The first queued runs of each DAG, in the order of promotion.
SELECT {run.RunView}
FROM unnest($1::text[], $2::integer[]) AS target (dag_id, slots)
CROSS JOIN LATERAL (
    SELECT *
    FROM dag_run
    WHERE dag_run.dag_id = target.dag_id AND state = 'queued' AND run_after <= $3 AND backfill_id IS NULL
    ORDER BY order_at, id
    LIMIT target.slots
) AS run

-- name: set_paused
UPDATE dag
SET is_paused = change.is_paused, paused_at = now()
FROM unnest($1::text[], $2::boolean[]) AS change (dag_id, is_paused)
WHERE dag.dag_id = change.dag_id
