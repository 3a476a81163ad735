-- name: lock_patterns
-- No other transaction creates a dataset, which a new pattern might miss, until this one ends.
SELECT pg_advisory_xact_lock(hashtext('tidegate.dataset_pattern'))

-- name: share_patterns
SELECT pg_advisory_xact_lock_shared(hashtext('tidegate.dataset_pattern'))

-- name: lock_ledger
-- Waits for transactions that write events, and blocks others: a reader of the ledger then misses no event.
LOCK TABLE dataset_event IN SHARE MODE

-- name: patterns_near
-- The patterns that may match new datasets: their literal prefix is a prefix of a URI.
SELECT new.uri, pattern.pattern, pattern.dag_id
FROM unnest($1::text[]) AS new (uri)
CROSS JOIN LATERAL generate_series(0, length(new.uri)) AS prefix (length)
CROSS JOIN LATERAL (SELECT * FROM dag_schedule_pattern_reference WHERE prefix = left(new.uri, prefix.length) OFFSET 0) AS pattern
WHERE EXISTS (SELECT FROM dag_schedule_pattern_reference)

-- name: consumers_of
-- The DAGs that wait for a dataset by its name.
SELECT reference.dag_id
FROM dag_schedule_dataset_reference AS reference
JOIN dataset ON dataset.id = reference.dataset_id
WHERE dataset.uri = $1

-- name: awaited_names
-- Datasets that DAGs wait for, and their patterns.
(SELECT uri FROM dataset WHERE id IN (SELECT dataset_id FROM dag_schedule_dataset_reference) ORDER BY uri LIMIT $1)
UNION ALL
(SELECT DISTINCT pattern FROM dag_schedule_pattern_reference ORDER BY pattern LIMIT $1)

-- name: datasets_matching
-- The datasets that match patterns. Their URIs begin with the literal prefix of the pattern; no URI has a character above 126.
SELECT DISTINCT dataset.id, dataset.uri
FROM unnest($1::text[], $2::text[]) AS pattern (prefix, expression)
JOIN dataset ON dataset.uri >= pattern.prefix COLLATE "C" AND dataset.uri < (pattern.prefix || chr(127)) COLLATE "C"
WHERE dataset.uri ~ pattern.expression

-- name: drop_schedule_references
WITH dropped AS (
    DELETE FROM dag_schedule_dataset_reference AS reference
    WHERE reference.dag_id = ANY ($1::text[])
      AND (reference.dag_id, reference.dataset_id) NOT IN (SELECT * FROM unnest($2::text[], $3::bigint[]))
    RETURNING reference.dag_id, reference.dataset_id
),
ended AS (
    UPDATE dataset_subscription AS subscription
    SET ended_in = ledger_xact()
    FROM dropped
    WHERE (subscription.dataset_id, subscription.dag_id) = (dropped.dataset_id, dropped.dag_id) AND subscription.ended_in IS NULL
)
SELECT dataset_id FROM dropped

-- name: drop_outlet_references
DELETE FROM task_outlet_dataset_reference WHERE dag_id = ANY ($1::text[])
RETURNING dataset_id

-- name: drop_pattern_references
DELETE FROM dag_schedule_pattern_reference WHERE dag_id = ANY ($1::text[])

-- name: insert_schedule_references
-- Returns the new references.
WITH new AS (
    INSERT INTO dag_schedule_dataset_reference (dag_id, dataset_id)
    SELECT * FROM unnest($1::text[], $2::bigint[])
    ON CONFLICT DO NOTHING
    RETURNING dag_id, dataset_id
),
begun AS (
    INSERT INTO dataset_subscription (dag_id, dataset_id) SELECT dag_id, dataset_id FROM new
)
SELECT dag_id, dataset_id FROM new

-- name: insert_outlet_references
INSERT INTO task_outlet_dataset_reference (dag_id, task_id, dataset_id)
SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[])

-- name: insert_pattern_references
INSERT INTO dag_schedule_pattern_reference (dag_id, pattern, prefix)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[])

-- name: refresh_activity
-- Returns the number of changed datasets. LIMIT: as in `dags.activity`.
UPDATE dataset
SET is_active = NOT is_active
WHERE id = ANY ($1::bigint[])
  AND is_active IS DISTINCT FROM (
      (SELECT true FROM dag_schedule_dataset_reference AS reference WHERE reference.dataset_id = dataset.id LIMIT 1) IS NOT NULL
      OR (SELECT true FROM task_outlet_dataset_reference AS reference WHERE reference.dataset_id = dataset.id LIMIT 1) IS NOT NULL
  )

-- name: delete_dags
WITH gone AS (DELETE FROM dag WHERE dag_id = ANY ($1::text[]) RETURNING dag_id),
    subscriptions AS (DELETE FROM dataset_subscription AS subscription USING gone WHERE subscription.dag_id = gone.dag_id),
    queue AS (DELETE FROM dataset_dag_run_queue USING gone WHERE target_dag_id = gone.dag_id),
    consumed AS (DELETE FROM dagrun_dataset_event AS event USING gone WHERE event.dag_id = gone.dag_id),
    discarded AS (DELETE FROM discarded_dataset_event AS event USING gone WHERE event.dag_id = gone.dag_id),
    backfills AS (DELETE FROM backfill USING gone WHERE backfill.dag_id = gone.dag_id RETURNING backfill.id),
    dates AS (DELETE FROM backfill_date USING backfills WHERE backfill_date.backfill_id = backfills.id),
    own_stages AS (DELETE FROM backfill_stage AS stage USING backfills WHERE stage.backfill_id = backfills.id),
    stages AS (DELETE FROM backfill_stage AS stage USING gone WHERE stage.dag_id = gone.dag_id),
    notes AS (DELETE FROM schedule_note AS note USING gone WHERE note.dag_id = gone.dag_id),
    notifications AS (
        DELETE FROM notification
        USING gone JOIN dag_version AS version ON version.dag_id = gone.dag_id
        WHERE notification.version_id = version.id
    )
DELETE FROM dag_version AS version USING gone WHERE version.dag_id = gone.dag_id

-- name: count_history
SELECT count(*) FROM (
    SELECT
    FROM unnest($2::bigint[]) AS new (dataset_id)
    JOIN dataset_event AS event
        ON event.dataset_id = new.dataset_id AND event.occurred_at >= coalesce($3::timestamptz, '-infinity')
    WHERE NOT EXISTS (SELECT FROM dag_schedule_dataset_reference WHERE (dag_id, dataset_id) = ($1, new.dataset_id))
    LIMIT $4
) AS recorded

-- name: recent_history
-- $3 if the events are gone. Compared and ordered as the index of a dataset has them: otherwise a month that other datasets fill
-- is read whole by its primary key, for each dataset.
WITH new AS (
    SELECT dataset_id, $4::bigint / count(*) OVER () AS most
    FROM unnest($2::bigint[]) AS new (dataset_id)
    WHERE NOT EXISTS (SELECT FROM dag_schedule_dataset_reference WHERE (dag_id, dataset_id) = ($1, new.dataset_id))
)
SELECT coalesce(max(event.occurred_at), $3::timestamptz)
FROM new
CROSS JOIN LATERAL (
    SELECT occurred_at FROM dataset_event
    WHERE (dataset_id, id) > (new.dataset_id, 0) AND (dataset_id, id) < (new.dataset_id + 1, 0)
    ORDER BY dataset_id DESC, id DESC
    OFFSET new.most LIMIT 1
) AS event

-- name: queue_history
-- Events of the ledger become pending for new consumers of their datasets; the clock visits these DAGs at once.
WITH new AS (
    SELECT dag_id, dataset_id, coalesce(since, '-infinity') AS since
    FROM unnest($1::text[], $2::bigint[], $3::timestamptz[]) AS row (dag_id, dataset_id, since)
),
subscribed AS (
    UPDATE dataset_subscription AS subscription
    SET history_since = new.since
    FROM new
    WHERE (subscription.dataset_id, subscription.dag_id) = (new.dataset_id, new.dag_id) AND subscription.ended_in IS NULL
),
queued AS (
    INSERT INTO dataset_dag_run_queue (target_dag_id, dataset_id, dataset_event_id, created_at)
    SELECT new.dag_id, new.dataset_id, event.id, $4::timestamptz
    FROM new
    JOIN dataset_event AS event ON event.dataset_id = new.dataset_id AND event.occurred_at >= new.since
    WHERE NOT EXISTS (SELECT FROM dagrun_dataset_event WHERE (dag_id, dataset_event_id) = (new.dag_id, event.id))
      AND NOT EXISTS (SELECT FROM discarded_dataset_event WHERE (dag_id, dataset_event_id) = (new.dag_id, event.id))
    ON CONFLICT DO NOTHING
    RETURNING target_dag_id
)
UPDATE dag
SET due_at = least(dag.due_at, $4), backfilled_by_txn = pg_current_xact_id()::text::bigint
WHERE dag_id IN (SELECT target_dag_id FROM queued)
