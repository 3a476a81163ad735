-- name: list_dead_letters
SELECT id, state, topic, partition, "offset", reason, message, value_bytes, received_at, replay_of
FROM dead_letter
WHERE ($1::dead_letter_state IS NULL OR state = $1)
  AND ($2::text IS NULL OR reason = $2)
  AND ($3::text IS NULL OR topic = $3)
  AND ($4::timestamptz IS NULL OR received_at >= $4)
  AND ($5::timestamptz IS NULL OR received_at <= $5)
  AND ($7::bigint IS NULL OR id < $7)
ORDER BY id DESC
LIMIT $6

-- name: open_of
SELECT id, state, topic, partition, "offset", reason, message, value_bytes, received_at, replay_of
FROM dead_letter
WHERE id = ANY ($1::bigint[]) AND state = 'open'
ORDER BY id

-- name: open_ids
-- Oldest first, so that replayed records keep their order.
SELECT id
FROM dead_letter
WHERE state = 'open'
  AND ($1::text IS NULL OR reason = $1)
  AND ($2::text IS NULL OR topic = $2)
  AND ($3::timestamptz IS NULL OR received_at >= $3)
  AND ($4::timestamptz IS NULL OR received_at <= $4)
ORDER BY id

-- name: count_open
-- The count ends at $1.
SELECT count(*) FROM (SELECT FROM dead_letter WHERE state = 'open' LIMIT $1) AS letters

-- name: read
SELECT
    id, state, topic, partition, "offset", key, headers, value, value_bytes, reason, message, recorded_at, received_at, replay_of,
    closed_at, closed_by, closed_because,
    ARRAY(SELECT later.id FROM dead_letter AS later WHERE later.replay_of = letter.id ORDER BY later.id) AS replayed_as,
    EXISTS (SELECT FROM outbox WHERE outbox.kind = 'replay' AND outbox.key = letter.id::text) AS is_waiting
FROM dead_letter AS letter
WHERE id = $1

-- name: status
SELECT id, state, closed_at, closed_by
FROM dead_letter
WHERE id = ANY ($1::bigint[])
ORDER BY id

-- name: close
-- With the row locks, each dead letter is closed once, also by concurrent users.
WITH open_letter AS (
    SELECT id FROM dead_letter WHERE id = ANY ($1::bigint[]) AND state = 'open' ORDER BY id FOR UPDATE
)
UPDATE dead_letter
SET state = $2, closed_at = now(), closed_by = $3, closed_because = $4
FROM open_letter
WHERE dead_letter.id = open_letter.id
RETURNING dead_letter.id, topic, partition, "offset", reason

-- name: expire
-- Up to $2 dead letters that arrived or were closed before $1, without the ones that wait to be sent.
DELETE FROM dead_letter
WHERE id = ANY (ARRAY(
    SELECT id
    FROM dead_letter
    WHERE coalesce(closed_at, received_at) < $1
      AND id <> ALL (ARRAY(SELECT key::bigint FROM outbox WHERE kind IN ('dead-letter', 'replay')))
    ORDER BY id
    LIMIT $2
    FOR UPDATE SKIP LOCKED
))
RETURNING state

-- name: is_large
-- Deleted rows leave room in the files of the table, so its size only says that it may be too large.
SELECT pg_total_relation_size('dead_letter') > $1

-- name: shrink
-- Up to $2 of the dead letters that exceed $1 bytes, each with what its row takes beside the record; without the ones that wait
-- to be sent.
WITH excess AS MATERIALIZED (
    SELECT id
    FROM (
        SELECT
            id, state,
            sum(octet_length(coalesce(value, '')) + octet_length(coalesce(raw_headers, '')) + 512)
                OVER (ORDER BY state <> 'open', id DESC) AS bytes
        FROM dead_letter
    ) AS ranked
    WHERE bytes > $1
      AND id <> ALL (ARRAY(SELECT key::bigint FROM outbox WHERE kind IN ('dead-letter', 'replay')))
    ORDER BY state = 'open', id
    LIMIT $2
)
DELETE FROM dead_letter
WHERE id = ANY (ARRAY(
    SELECT id FROM dead_letter WHERE id = ANY (ARRAY(SELECT id FROM excess)) ORDER BY id FOR UPDATE SKIP LOCKED
))
RETURNING state
