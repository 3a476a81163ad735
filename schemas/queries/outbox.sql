-- name: insert_outbox
INSERT INTO outbox (shard, kind, key, event_id, time, payload)
SELECT * FROM unnest($1::smallint[], $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::bytea[])

-- name: next_outbox
SELECT id, kind, key, event_id, in_calendar(time) AS time, payload
FROM outbox
WHERE shard = ANY ($1::smallint[]) AND id >= $2 AND kind = ANY ($4::text[]) AND id <> ALL ($5::bigint[])
ORDER BY id
LIMIT $3

-- name: delete_outbox
DELETE FROM outbox
WHERE id = ANY ($1::bigint[])
