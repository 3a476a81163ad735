-- name: insert_outbox
INSERT INTO outbox (shard, kind, key, event_id, time, payload)
SELECT * FROM unnest($1::smallint[], $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::bytea[])

-- name: next_outbox
SELECT id, kind, key, event_id, time, payload
FROM outbox
WHERE shard = ANY ($1::smallint[]) AND id >= $2
ORDER BY id
LIMIT $3

-- name: last_given
-- Ids are given one by one: none is kept for later by a session.
SELECT pg_postmaster_start_time(), last_value FROM outbox_id_seq

-- name: writers
-- The transactions that have written to the outbox, or are about to, and have not ended.
SELECT DISTINCT virtualtransaction FROM pg_locks
WHERE locktype = 'relation' AND relation = 'outbox'::regclass AND mode = 'RowExclusiveLock'
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())

-- name: delete_outbox
DELETE FROM outbox
WHERE id = ANY ($1::bigint[])
