-- name: claim
-- One of several requests with the same key inserts its row; the others get the row of that one. An update that changes nothing
-- returns it: a second statement would find no row if the first request was refused meanwhile.
INSERT INTO idempotency_key (username, key, digest) VALUES ($1, $2, $3)
ON CONFLICT (username, key) DO UPDATE SET claimed_at = idempotency_key.claimed_at
RETURNING
    xmax = 0 AS is_new, created_at AS since, digest, status, content,
    extract(epoch FROM clock_timestamp() - claimed_at)::double precision AS age_s

-- name: take_over
-- Of two requests that follow an unfinished one, one goes on.
UPDATE idempotency_key SET claimed_at = clock_timestamp()
WHERE username = $1 AND key = $2 AND status IS NULL AND claimed_at < clock_timestamp() - make_interval(secs => $3)
RETURNING true

-- name: give_up
UPDATE idempotency_key SET claimed_at = 'epoch' WHERE username = $1 AND key = $2 AND status IS NULL

-- name: finish
UPDATE idempotency_key SET status = $3, content = $4 WHERE username = $1 AND key = $2

-- name: release
DELETE FROM idempotency_key WHERE username = $1 AND key = $2 AND status IS NULL

-- name: forget
DELETE FROM idempotency_key
WHERE (username, key) IN (
    SELECT username, key FROM idempotency_key WHERE created_at < now() - make_interval(secs => $1) ORDER BY created_at LIMIT 1000
)
