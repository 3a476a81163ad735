-- name: record_batch
-- A batch counts only if each of its partitions has the expected offset and epoch. Returns the moved rows with their new ctids,
-- then the ids of the batch that were recorded before.
-- An index scan by key visits every dead version of a row that vacuum cannot remove yet. So rows are read by their last ctid
-- first: all or none, because rows at another ctid would be locked after the others, against the lock order.
-- || keeps the planner from using the key.
WITH batch AS MATERIALIZED (
    SELECT *
    FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[]) AS batch (key, epoch, expected, new, place)
),
there AS (
    SELECT count(*) AS partitions
    FROM batch JOIN lease ON lease.ctid = batch.place::tid
    WHERE lease.kind || '' = 'partition' AND lease.key || '' = batch.key
),
moved AS (
    UPDATE lease
    SET next_offset = batch.new
    FROM batch
    WHERE (SELECT partitions FROM there) = cardinality($1)
      AND lease.ctid = batch.place::tid
      AND lease.kind || '' = 'partition'
      AND lease.key || '' = batch.key
      AND lease.epoch = batch.epoch
      AND lease.next_offset = batch.expected
    RETURNING lease.key, lease.ctid
),
fresh AS (
    INSERT INTO event_dedupe (source, event_id, scope, content)
    SELECT * FROM unnest($6::text[], $7::text[], $8::text[], $9::integer[])
    ON CONFLICT DO NOTHING
    RETURNING source, event_id, scope
)
SELECT true AS moved, key, ctid::text, '' AS scope FROM moved
UNION ALL
SELECT false, source, id, scope
FROM (
    SELECT source, id, scope FROM unnest($6::text[], $7::text[], $8::text[]) AS event (source, id, scope)
    EXCEPT
    SELECT source, event_id, scope FROM fresh
) AS known

-- name: move_offsets
-- The same by key, for batches of which a row had another ctid.
UPDATE lease
SET next_offset = batch.new
FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[]) AS batch (key, epoch, expected, new)
WHERE lease.kind = 'partition'
  AND lease.key = batch.key
  AND lease.epoch = batch.epoch
  AND lease.next_offset = batch.expected
RETURNING lease.key, lease.ctid::text

-- name: pages
SELECT pg_relation_size('event_dedupe') / current_setting('block_size')::bigint AS pages

-- name: forget
-- The old ids on the pages from $2 to before $3.
DELETE FROM event_dedupe
WHERE ctid >= $2::tid AND ctid < $3::tid AND received_at < now() - make_interval(days => $1)

-- name: recorded_ids
SELECT source, event_id AS id, scope, content, received_at
FROM event_dedupe
WHERE (source, event_id, scope) IN (SELECT * FROM unnest($1::text[], $2::text[], $3::text[]))

-- name: forget_ids
DELETE FROM event_dedupe
USING unnest($1::text[], $2::text[], $3::text[]) AS event (source, id, scope)
WHERE (event_dedupe.source, event_dedupe.event_id, event_dedupe.scope) = (event.source, event.id, event.scope)

-- name: forget_portion
-- The first $4 ids of a source after ($2, $3). Returns the last one. Each portion starts behind the dead entries of those before.
WITH portion AS MATERIALIZED (
    SELECT ctid, event_id, scope
    FROM event_dedupe
    WHERE source = $1 AND (event_id, scope) > ($2, $3)
    ORDER BY event_id, scope
    LIMIT $4
),
forgotten AS (
    DELETE FROM event_dedupe WHERE ctid = ANY (ARRAY(SELECT ctid FROM portion))
)
SELECT event_id, scope FROM portion ORDER BY event_id DESC, scope DESC LIMIT 1

-- name: insert_dead_letters
-- Headers come as JSON texts: asyncpg would encode nested lists as an array of more dimensions.
INSERT INTO dead_letter (
    topic, partition, "offset", key, headers, value, value_bytes, reason, message, recorded_at, raw_headers, replay_of
)
SELECT
    letter.topic, letter.partition, letter.position, letter.key, letter.headers::jsonb, letter.value, letter.value_bytes,
    letter.reason, letter.message, letter.recorded_at, letter.raw_headers, letter.replay_of
FROM unnest(
    $1::text[], $2::integer[], $3::bigint[], $4::bytea[], $5::text[], $6::bytea[], $7::integer[], $8::text[], $9::text[],
    $10::timestamptz[], $11::bytea[], $12::bigint[]
) AS letter (
    topic, partition, position, key, headers, value, value_bytes, reason, message, recorded_at, raw_headers, replay_of
)
ON CONFLICT (topic, partition, "offset", recorded_at, md5(coalesce(value, ''))) DO NOTHING
RETURNING id, topic, partition, "offset", recorded_at, received_at

-- name: count_ignored_records
INSERT INTO ignored_record (partition, what, records)
SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[])
ON CONFLICT (partition, what) DO UPDATE SET records = ignored_record.records + excluded.records, last_at = excluded.last_at

-- name: ignored_records
SELECT regexp_replace(partition, '/[0-9]+$', '') AS topic, what, sum(records)::bigint AS records, max(last_at) AS last_at
FROM ignored_record
WHERE $1::text IS NULL OR (regexp_replace(partition, '/[0-9]+$', ''), what) > ($1, $2::text)
GROUP BY topic, what
ORDER BY topic, what
LIMIT $3

-- name: insert_ignored_finishes
INSERT INTO ignored_finish (submission_id, source, event_id, outcome, reason)
SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[])

-- name: defer_ends
INSERT INTO deferred_end (submission_id, dag_run_id, source, event_id, occurred_at, body, at)
SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::text[], $5::timestamptz[], $6::bytea[], $7::timestamptz[])

-- name: deferred_ends
SELECT id, source, event_id, occurred_at, body FROM deferred_end WHERE id = ANY ($1::bigint[]) ORDER BY id

-- name: take_deferred_ends
DELETE FROM deferred_end WHERE id = ANY ($1::bigint[])

-- name: whole_dead_letters
SELECT
    id, topic, partition, "offset", key, headers, value, value_bytes, reason, message, recorded_at, raw_headers, replay_of
FROM dead_letter
WHERE id = ANY ($1::bigint[])
