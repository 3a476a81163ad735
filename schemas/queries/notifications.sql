-- name: insert_notifications
INSERT INTO notification (dag_run_id, version_id, about, seq, kind, receiver_id, receiver, context)
SELECT * FROM unnest(
    $1::bigint[], $2::bigint[], $3::text[], $4::integer[], $5::text[], $6::uuid[], $7::jsonb[], $8::jsonb[]
)
ON CONFLICT (dag_run_id, about, seq, receiver_id) DO NOTHING

-- name: due
-- Up to $2 notifications of each kind $1, without those $6. The process of a function can be observed on its own host only:
-- another host may claim it after a silence of $5 s. `sender`: the daemon that was sending it when its claim ended, which may
-- know the result.
SELECT first.id, first.sender
FROM unnest($1::text[], $2::integer[]) AS free (kind, places)
CROSS JOIN LATERAL (
    SELECT id, CASE WHEN state = 'sending' AND kind <> 'function' THEN owner END AS sender
    FROM open_notification
    WHERE kind = free.kind AND due_at <= $4
      AND (state = 'pending' OR kind <> 'function' OR host = $3 OR due_at <= $4 - make_interval(secs => $5))
      AND id <> ALL ($6::bigint[])
    ORDER BY due_at
    LIMIT free.places
    FOR UPDATE SKIP LOCKED
) AS first

-- name: due_of_others
-- As `due`, without the receivers $7, whose backlogs are not read: one entry of the index for each receiver finds all receivers.
WITH RECURSIVE receiver (kind, key, due_at) AS (
    SELECT kind, '-9223372036854775808'::bigint, 'infinity'::timestamptz FROM unnest($1::text[]) AS free (kind)
    UNION ALL
    SELECT next.kind, next.receiver_key, next.due_at
    FROM receiver
    CROSS JOIN LATERAL (
        SELECT kind, receiver_key, due_at
        FROM open_notification AS later
        WHERE later.kind = receiver.kind AND later.receiver_key > receiver.key
        ORDER BY receiver_key, due_at
        LIMIT 1
    ) AS next
)
SELECT first.id, first.sender
FROM unnest($1::text[], $2::integer[]) AS free (kind, places)
CROSS JOIN LATERAL (
    SELECT own.id, own.sender
    FROM (
        SELECT key FROM receiver WHERE kind = free.kind AND due_at <= $4 AND key <> ALL ($7::bigint[]) ORDER BY due_at
    ) AS other
    CROSS JOIN LATERAL (
        SELECT id, CASE WHEN state = 'sending' AND kind <> 'function' THEN owner END AS sender
        FROM open_notification
        WHERE kind = free.kind AND receiver_key = other.key AND due_at <= $4
          AND (state = 'pending' OR kind <> 'function' OR host = $3 OR due_at <= $4 - make_interval(secs => $5))
          AND id <> ALL ($6::bigint[])
        ORDER BY due_at
        LIMIT free.places
        FOR UPDATE SKIP LOCKED
    ) AS own
    LIMIT free.places
) AS first

-- name: take_over
UPDATE notification SET owner = $2, host = $3, due_at = $4::timestamptz + make_interval(secs => $5) WHERE id = ANY ($1::bigint[])

-- name: claim
-- The same host continues the try of a function. Every other claim is a new try. A damaged number of tries fails no other claim.
UPDATE notification
SET state = 'sending',
    tries = CASE WHEN state = 'sending' AND kind = 'function' AND host = $3 THEN tries ELSE least(tries, 2147483646) + 1 END,
    owner = $2,
    host = $3,
    due_at = $4::timestamptz + make_interval(secs => $5)
WHERE id = ANY ($1::bigint[])
RETURNING id, delivery_id, dag_run_id, version_id, receiver_key(kind, receiver, context), receiver, context, tries

-- name: record_sent
-- From any daemon: a sent notification is never sent again.
UPDATE notification SET state = 'sent', reason = $2, owner = NULL, ended_at = clock_timestamp() WHERE id = $1 AND state <> 'sent'

-- name: conclude_try
-- Changes nothing unless this daemon still holds the claim.
UPDATE notification
SET state = $4::notification_state,
    reason = $5,
    due_at = $6,
    ended_at = CASE WHEN $4::notification_state = 'failed' THEN clock_timestamp() END
WHERE id = $1 AND owner = $2 AND tries = $3 AND state = 'sending'

-- name: list_notifications
-- A run ($2) names its DAG: the other runs of that are not read. Postgres takes an array for small, and hashes it: runs that it
-- knows as many would be read again for each notification.
SELECT
    notification.id, coalesce(run.dag_id, version.dag_id) AS dag_id, run.run_id, notification.context, notification.receiver,
    notification.state, notification.tries, notification.reason, notification.created_at, notification.due_at,
    notification.ended_at, notification.delivery_id, notification.host
FROM notification
LEFT JOIN dag_run AS run ON run.id = notification.dag_run_id
LEFT JOIN dag_version AS version ON version.id = notification.version_id
WHERE (
      $1::text IS NULL OR $2::text IS NOT NULL
      OR notification.dag_run_id IN (
          SELECT unnest(ARRAY(SELECT id FROM dag_run WHERE dag_id = $1 AND order_at IS NOT NULL))
      )
      OR notification.version_id IN (SELECT id FROM dag_version WHERE dag_id = $1)
  )
  AND ($2::text IS NULL OR notification.dag_run_id = (SELECT id FROM dag_run WHERE dag_id = $1 AND run_id = $2))
  AND (NOT $3::boolean OR notification.state = 'failed')
  AND ($4::bigint IS NULL OR notification.id = $4)
  AND ($6::bigint IS NULL OR notification.id < $6)
ORDER BY notification.id DESC
LIMIT $5
