-- name: last_of_outbox
-- The sequence caches no ids: a session reserves none for later. When a backend crashes, the server recovers without a new start
-- time, but its statistics begin anew.
SELECT concat_ws('/', pg_postmaster_start_time(), (SELECT stats_reset FROM pg_stat_wal)), last_value FROM outbox_id_seq

-- name: last_of_events
SELECT concat_ws('/', pg_postmaster_start_time(), (SELECT stats_reset FROM pg_stat_wal)), last_value FROM dataset_event_id_seq

-- name: writers
-- The transactions that have written to the table, or are about to, and have not ended.
SELECT DISTINCT virtualtransaction FROM pg_locks
WHERE locktype = 'relation' AND relation = $1::text::regclass AND mode = 'RowExclusiveLock'
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
