-- name: last_of_outbox
-- The sequence caches no ids: a session reserves none for later.
SELECT pg_postmaster_start_time(), last_value FROM outbox_id_seq

-- name: last_of_events
SELECT pg_postmaster_start_time(), last_value FROM dataset_event_id_seq

-- name: writers
-- The transactions that have written to the table, or are about to, and have not ended.
SELECT DISTINCT virtualtransaction FROM pg_locks
WHERE locktype = 'relation' AND relation = $1::text::regclass AND mode = 'RowExclusiveLock'
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
