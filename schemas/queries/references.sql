-- name: lock_patterns
-- Until this transaction ends nobody makes a dataset that a new pattern might not be asked about.
SELECT pg_advisory_xact_lock(hashtext('tidegate.dataset_pattern'))

-- name: share_patterns
SELECT pg_advisory_xact_lock_shared(hashtext('tidegate.dataset_pattern'))

-- name: lock_ledger
-- Waits for every event that is being written, and lets no other in: who reads the ledger now misses none.
LOCK TABLE dataset_event IN SHARE MODE

-- name: patterns_near
-- The patterns that may match new datasets: those whose prefix is one of a URI.
SELECT new.uri, pattern.pattern, pattern.dag_id
FROM unnest($1::text[]) AS new (uri)
CROSS JOIN LATERAL generate_series(0, length(new.uri)) AS prefix (length)
JOIN dag_schedule_pattern_reference AS pattern ON pattern.prefix = left(new.uri, prefix.length)
WHERE EXISTS (SELECT FROM dag_schedule_pattern_reference)

-- name: datasets_near
-- The datasets that patterns may match: those whose URIs begin with their prefixes. No URI has a character above 126.
SELECT pattern.prefix, dataset.id, dataset.uri
FROM unnest($1::text[]) AS pattern (prefix)
JOIN dataset ON dataset.uri >= pattern.prefix COLLATE "C" AND dataset.uri < (pattern.prefix || chr(127)) COLLATE "C"

-- name: drop_schedule_references
DELETE FROM dag_schedule_dataset_reference AS reference
WHERE reference.dag_id = ANY ($1::text[])
  AND NOT EXISTS (
      SELECT FROM unnest($2::text[], $3::bigint[]) AS kept (dag_id, dataset_id)
      WHERE (kept.dag_id, kept.dataset_id) = (reference.dag_id, reference.dataset_id)
  )
RETURNING reference.dataset_id

-- name: drop_outlet_references
DELETE FROM task_outlet_dataset_reference WHERE dag_id = ANY ($1::text[])
RETURNING dataset_id

-- name: drop_pattern_references
DELETE FROM dag_schedule_pattern_reference WHERE dag_id = ANY ($1::text[])

-- name: insert_schedule_references
-- Returns those that are new.
INSERT INTO dag_schedule_dataset_reference (dag_id, dataset_id)
SELECT * FROM unnest($1::text[], $2::bigint[])
ON CONFLICT DO NOTHING
RETURNING dag_id, dataset_id

-- name: insert_outlet_references
INSERT INTO task_outlet_dataset_reference (dag_id, task_id, dataset_id)
SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[])

-- name: insert_pattern_references
INSERT INTO dag_schedule_pattern_reference (dag_id, pattern, prefix)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[])

-- name: refresh_activity
-- Returns how many changed.
UPDATE dataset
SET is_active = NOT is_active
WHERE id = ANY ($1::bigint[])
  AND is_active IS DISTINCT FROM (
      EXISTS (SELECT FROM dag_schedule_dataset_reference AS reference WHERE reference.dataset_id = dataset.id)
      OR EXISTS (SELECT FROM task_outlet_dataset_reference AS reference WHERE reference.dataset_id = dataset.id)
  )

-- name: queue_history
-- What the ledger has of datasets that DAGs have just begun to wait for; the clock is to look at those DAGs.
WITH queued AS (
    INSERT INTO dataset_dag_run_queue (target_dag_id, dataset_id, dataset_event_id, created_at)
    SELECT new.dag_id, new.dataset_id, event.id, $4::timestamptz
    FROM unnest($1::text[], $2::bigint[], $3::timestamptz[]) AS new (dag_id, dataset_id, since)
    JOIN dataset_event AS event ON event.dataset_id = new.dataset_id AND event.occurred_at >= coalesce(new.since, '-infinity')
    WHERE NOT EXISTS (SELECT FROM dagrun_dataset_event AS had WHERE (had.dag_id, had.dataset_event_id) = (new.dag_id, event.id))
      AND NOT EXISTS (SELECT FROM discarded_dataset_event AS had WHERE (had.dag_id, had.dataset_event_id) = (new.dag_id, event.id))
    ON CONFLICT DO NOTHING
    RETURNING target_dag_id
)
UPDATE dag SET due_at = least(dag.due_at, $4) WHERE dag_id IN (SELECT target_dag_id FROM queued)
