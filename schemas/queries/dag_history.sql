-- name: next_part
-- The first part with more rows than the limit of its kind. New events may always become pending: few are left.
SELECT CASE
    WHEN (SELECT count(*) FROM (SELECT FROM dag_run WHERE dag_id = $1 LIMIT $2 + 1) AS row) > $2 THEN 'runs'
    WHEN (
        SELECT count(*)
        FROM (
            SELECT FROM dag_run JOIN task_instance AS task ON task.dag_run_id = dag_run.id WHERE dag_run.dag_id = $1 LIMIT $3 + 1
        ) AS row
    ) > $3 THEN 'runs'
    WHEN (SELECT count(*) FROM (SELECT FROM dagrun_dataset_event WHERE dag_id = $1 LIMIT $3 + 1) AS row) > $3 THEN 'consumed'
    WHEN (SELECT count(*) FROM (SELECT FROM discarded_dataset_event WHERE dag_id = $1 LIMIT $3 + 1) AS row) > $3 THEN 'discarded'
    WHEN (SELECT count(*) FROM (SELECT FROM dataset_dag_run_queue WHERE target_dag_id = $1 LIMIT $4 + 1) AS row) > $4
        THEN 'pending'
    WHEN (
        SELECT count(*)
        FROM (
            SELECT
            FROM backfill JOIN backfill_date AS date ON date.backfill_id = backfill.id
            WHERE backfill.dag_id = $1
            LIMIT $3 + 1
        ) AS row
    ) > $3 THEN 'dates'
    WHEN (
        SELECT count(*)
        FROM (
            SELECT FROM dag_version WHERE dag_id = $1 AND id <> (SELECT version_id FROM dag WHERE dag_id = $1) LIMIT $2 + 1
        ) AS row
    ) > $2 THEN 'versions'
END

-- name: oldest_runs
SELECT id FROM dag_run WHERE dag_id = $1 AND order_at IS NOT NULL ORDER BY order_at, id LIMIT $2

-- name: all_runs
SELECT id FROM dag_run WHERE dag_id = ANY ($1::text[])

-- name: delete_runs
WITH gone AS (DELETE FROM dag_run WHERE id = ANY ($1::bigint[]) RETURNING id),
    notifications AS (DELETE FROM notification USING gone WHERE notification.dag_run_id = gone.id),
    deadlines AS (DELETE FROM deadline USING gone WHERE deadline.dag_run_id = gone.id),
    journal AS (DELETE FROM run_state_log USING gone WHERE run_state_log.dag_run_id = gone.id),
    requests AS (DELETE FROM run_to_reconsider USING gone WHERE run_to_reconsider.dag_run_id = gone.id),
    results AS (DELETE FROM task_result USING gone WHERE task_result.dag_run_id = gone.id),
    tasks AS (DELETE FROM task_instance USING gone WHERE task_instance.dag_run_id = gone.id)
DELETE FROM submission USING gone WHERE submission.dag_run_id = gone.id

-- name: delete_consumed
DELETE FROM dagrun_dataset_event
WHERE dag_id = $1 AND dataset_event_id <= (
    SELECT max(dataset_event_id)
    FROM (SELECT dataset_event_id FROM dagrun_dataset_event WHERE dag_id = $1 ORDER BY dataset_event_id LIMIT $2) AS oldest
)

-- name: delete_discarded
DELETE FROM discarded_dataset_event
WHERE dag_id = $1 AND dataset_event_id <= (
    SELECT max(dataset_event_id)
    FROM (SELECT dataset_event_id FROM discarded_dataset_event WHERE dag_id = $1 ORDER BY dataset_event_id LIMIT $2) AS oldest
)

-- name: delete_pending
DELETE FROM dataset_dag_run_queue
WHERE target_dag_id = $1 AND dataset_event_id <= (
    SELECT max(dataset_event_id)
    FROM (
        SELECT dataset_event_id FROM dataset_dag_run_queue WHERE target_dag_id = $1 ORDER BY dataset_event_id LIMIT $2
    ) AS oldest
)

-- name: delete_dates
DELETE FROM backfill_date AS date
USING (
    SELECT backfill_id, ordinal
    FROM backfill JOIN backfill_date ON backfill_date.backfill_id = backfill.id
    WHERE backfill.dag_id = $1
    LIMIT $2
) AS gone
WHERE date.backfill_id = gone.backfill_id AND date.ordinal = gone.ordinal

-- name: delete_versions
-- All but the newest one.
WITH gone AS (
    DELETE FROM dag_version
    WHERE id IN (
        SELECT id
        FROM dag_version
        WHERE dag_id = $1 AND id <> (SELECT version_id FROM dag WHERE dag_id = $1)
        ORDER BY number
        LIMIT $2
    )
    RETURNING id
)
DELETE FROM notification USING gone WHERE notification.version_id = gone.id

-- name: mark
UPDATE dag SET history_deleted_at = now() WHERE dag_id = $1
