-- name: claim
-- One of several requests with the same key gets a row; the others read it.
INSERT INTO idempotency_key (username, key, digest) VALUES ($1, $2, $3)
ON CONFLICT (username, key) DO NOTHING
RETURNING true

-- name: read
SELECT digest, status, content, extract(epoch FROM clock_timestamp() - claimed_at)::double precision AS age_s
FROM idempotency_key
WHERE username = $1 AND key = $2

-- name: take_over
-- Of two requests that follow an unfinished one, one goes on.
UPDATE idempotency_key SET claimed_at = clock_timestamp()
WHERE username = $1 AND key = $2 AND status IS NULL AND claimed_at < clock_timestamp() - make_interval(secs => $3)
RETURNING true

-- name: finish
UPDATE idempotency_key SET status = $3, content = $4 WHERE username = $1 AND key = $2

-- name: release
DELETE FROM idempotency_key WHERE username = $1 AND key = $2 AND status IS NULL

-- name: forget
DELETE FROM idempotency_key
WHERE (username, key) IN (
    SELECT username, key FROM idempotency_key WHERE created_at < now() - make_interval(secs => $1) ORDER BY created_at LIMIT 1000
)
