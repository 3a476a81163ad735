-- name: heartbeat
INSERT INTO job (id, host, pid, version, settings, away)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (id) DO UPDATE SET heartbeat_at = clock_timestamp(), away = excluded.away

-- name: live
SELECT host, pid, started_at, heartbeat_at, settings AS terms, away, id
FROM live_job
WHERE $1::timestamptz IS NULL OR (started_at, id) > ($1, $2::uuid)
ORDER BY started_at, id
LIMIT $3

-- name: daemon_rank
-- Position of a daemon among the live ones, oldest first, and their number. The asking daemon counts as live even if its
-- heartbeat is old.
WITH mine AS (SELECT started_at, id FROM job WHERE id = $1)
SELECT count(*) FILTER (WHERE (living.started_at, living.id) < (mine.started_at, mine.id)) AS number, count(*) AS of
FROM mine, (SELECT started_at, id FROM live_job UNION SELECT started_at, id FROM mine) AS living
GROUP BY mine.id

-- name: create_leases
-- Existing leases stay as they are.
INSERT INTO lease (kind, key, next_offset)
SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[])
ON CONFLICT (kind, key) DO NOTHING

-- name: owned
-- Without a lock: another daemon claims one of these without delay, and its epoch fences the former owner.
SELECT kind, key, epoch, next_offset, halted, ctid::text FROM lease WHERE owner = $1 ORDER BY kind, key

-- name: counts
SELECT kind, coalesce(substring(key FROM '^(.*)/'), '') AS topic, count(*)
FROM lease
WHERE NOT halted
GROUP BY 1, 2
ORDER BY 1, 2

-- name: claim
-- Leases without a live owner. A row that a frozen owner's transaction has locked is skipped. A row that another daemon claims
-- during this statement is compared again, but with the live daemons of before: its new owner may not be among them. So the epoch
-- has to be that of the owner that was not live.
UPDATE lease
SET owner = $1, epoch = epoch + 1
WHERE (kind, key) IN (
    SELECT lease.kind, lease.key
    FROM lease AS seen
    JOIN lease ON (lease.kind, lease.key, lease.epoch) = (seen.kind, seen.key, seen.epoch)
    WHERE seen.kind = $2 AND coalesce(substring(seen.key FROM '^(.*)/'), '') = $3 AND NOT lease.halted
      AND NOT EXISTS (SELECT FROM live_job WHERE live_job.id = seen.owner)
    ORDER BY lease.key
    LIMIT $4
    FOR UPDATE OF lease SKIP LOCKED
)
RETURNING kind, key, epoch, next_offset, halted

-- name: release
UPDATE lease
SET owner = NULL, epoch = epoch + 1
WHERE (kind, key) IN (
    SELECT kind, key
    FROM lease
    WHERE owner = $1 AND (kind, key) IN (SELECT * FROM unnest($2::text[], $3::text[]))
    ORDER BY kind, key
    FOR UPDATE
)

-- name: release_all
UPDATE lease
SET owner = NULL, epoch = epoch + 1
WHERE (kind, key) IN (SELECT kind, key FROM lease WHERE owner = $1 ORDER BY kind, key FOR UPDATE)

-- name: leave
DELETE FROM job WHERE id = $1

-- name: forget_dead
DELETE FROM job WHERE heartbeat_at < clock_timestamp() - make_interval(secs => $1)

-- name: halt
UPDATE lease SET halted = true WHERE kind = 'partition' AND key = $1 AND owner = $2

-- name: record_incident
INSERT INTO ingest_incident (partition, next_offset, log_start, log_end)
VALUES ($1, $2, $3, $4)
ON CONFLICT (partition) WHERE resolved_at IS NULL DO NOTHING

-- name: incidents
SELECT partition, next_offset, log_start, log_end, at
FROM ingest_incident
WHERE resolved_at IS NULL AND ($1::text IS NULL OR partition > $1)
ORDER BY partition
LIMIT $2

-- name: resume
WITH resolved AS (
    UPDATE ingest_incident SET resolved_at = clock_timestamp() WHERE partition = $1 AND resolved_at IS NULL
)
UPDATE lease
SET halted = false, next_offset = $2, owner = NULL, epoch = epoch + 1
WHERE kind = 'partition' AND key = $1 AND halted
RETURNING key

-- name: record_resumption
INSERT INTO audit_log (who, what, object, details) VALUES ($1, 'resumed a partition', $2, $3)
