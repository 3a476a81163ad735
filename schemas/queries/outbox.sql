-- name: insert_outbox
INSERT INTO outbox (shard, kind, key, event_id, time, payload)
SELECT * FROM unnest($1::smallint[], $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::bytea[])

-- name: next_outbox
-- Rows of shards whose lease still has the given epoch. A former owner reads none. From the id $7 on only the rows $8.
SELECT id, shard, kind, key, event_id, in_calendar(time) AS time, payload
FROM outbox
WHERE shard = ANY (ARRAY(
        SELECT held.shard
        FROM unnest($1::smallint[], $2::bigint[]) AS held (shard, epoch)
        WHERE EXISTS (SELECT FROM lease WHERE kind = 'outbox' AND key = held.shard::text AND epoch = held.epoch)
    ))
  AND id >= $3 AND kind = ANY ($5::text[]) AND id <> ALL ($6::bigint[]) AND (id < $7 OR id = ANY ($8::bigint[]))
ORDER BY id
LIMIT $4

-- name: delete_outbox
-- Only rows of shards whose lease still has the given epoch. The lock delays a claim: a new owner reads either all of these rows
-- or none. Rows of a shard whose lease another session holds stay, and are sent again.
WITH kept AS MATERIALIZED (
    SELECT held.shard
    FROM unnest($2::smallint[], $3::bigint[]) AS held (shard, epoch)
    CROSS JOIN LATERAL (
        SELECT FROM lease WHERE kind = 'outbox' AND key = held.shard::text AND epoch = held.epoch FOR SHARE SKIP LOCKED
    ) AS locked
)
DELETE FROM outbox
WHERE id = ANY ($1::bigint[]) AND shard IN (SELECT shard FROM kept)
