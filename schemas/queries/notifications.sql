-- name: insert_notifications
INSERT INTO notification (dag_run_id, version_id, about, seq, kind, receiver_id, receiver, context)
SELECT * FROM unnest(
    $1::bigint[], $2::bigint[], $3::text[], $4::integer[], $5::text[], $6::uuid[], $7::jsonb[], $8::jsonb[]
)
ON CONFLICT (dag_run_id, about, seq, receiver_id) DO NOTHING

-- name: claim
-- Up to $2 notifications of each kind $1, none of them for the receivers $9. The process of a function can be observed on its own
-- host only. That host continues the same try; another host claims it after a silence of $7 s. Every other claim is a new try.
WITH ready AS MATERIALIZED (
    SELECT first.id
    FROM unnest($1::text[], $2::integer[]) AS free (kind, places)
    CROSS JOIN LATERAL (
        SELECT id
        FROM notification
        WHERE kind = free.kind AND state IN ('pending', 'sending') AND due_at <= $5
          AND (state = 'pending' OR kind <> 'function' OR host = $4 OR due_at <= $5 - make_interval(secs => $7))
          AND id <> ALL ($8::bigint[])
          AND receiver <> ALL ($9::jsonb[])
        ORDER BY due_at
        LIMIT free.places
        FOR UPDATE SKIP LOCKED
    ) AS first
)
UPDATE notification
SET state = 'sending',
    tries = tries + CASE WHEN state = 'sending' AND kind = 'function' AND host = $4 THEN 0 ELSE 1 END,
    owner = $3,
    host = $4,
    due_at = $5 + make_interval(secs => $6)
FROM ready
WHERE notification.id = ready.id
RETURNING notification.id, delivery_id, dag_run_id, version_id, receiver, context, tries

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
SELECT
    notification.id, coalesce(run.dag_id, version.dag_id) AS dag_id, run.run_id, notification.context, notification.receiver, notification.state, notification.tries,
    notification.reason, notification.created_at, notification.due_at, notification.ended_at, notification.delivery_id,
    notification.host
FROM notification
LEFT JOIN dag_run AS run ON run.id = notification.dag_run_id
LEFT JOIN dag_version AS version ON version.id = notification.version_id
WHERE ($1::text IS NULL OR coalesce(run.dag_id, version.dag_id) = $1)
  AND ($2::text IS NULL OR run.run_id = $2)
  AND (NOT $3::boolean OR notification.state = 'failed')
  AND ($4::bigint IS NULL OR notification.id = $4)
  AND ($6::bigint IS NULL OR notification.id < $6)
ORDER BY notification.id DESC
LIMIT $5
