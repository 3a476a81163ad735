-- name: heartbeat
INSERT INTO job (id, host, pid, version, settings, away)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (id) DO UPDATE SET heartbeat_at = clock_timestamp(), away = excluded.away

-- name: live
SELECT host, pid, started_at, heartbeat_at, settings AS terms, away, id
FROM live_job
ORDER BY started_at, id

-- name: standing
-- The number of live daemons; how many leases each group has, with the position of the asking daemon $1 among the live daemons
-- that share the group, oldest first, and their number; whether a loss of commits is open, and whether the database is held; and
-- the leases that it owns, without a lock: another daemon claims one of these without delay, and its epoch fences the former
-- owner. The asking daemon counts as live: its heartbeat, a part of the same statement, is not visible yet. $2 are its groups. A
-- daemon of a former version names no groups, and shares all.
SELECT daemons, groups, has_open_loss, is_held, owned
FROM (
    WITH mine AS (
        SELECT
            coalesce((SELECT started_at FROM job WHERE id = $1), clock_timestamp()) AS started_at,
            $1::uuid AS id,
            $2::jsonb AS groups
    ),
    living AS (
        SELECT started_at, id, settings -> 'groups' AS groups FROM live_job WHERE id <> $1
        UNION ALL
        SELECT started_at, id, groups FROM mine
    ),
    leases AS (
        SELECT kind, coalesce(substring(key FROM '^(.*)/'), '') AS topic, count(*)
        FROM lease
        WHERE NOT halted
        GROUP BY 1, 2
    ),
    shared AS (
        SELECT
            leases.kind, leases.topic, leases.count,
            count(*) FILTER (WHERE (living.started_at, living.id) < (mine.started_at, mine.id)) AS number, count(*) AS of,
            bool_or(living.id = mine.id) AS is_shared
        FROM mine
        CROSS JOIN leases
        JOIN living
            ON coalesce(living.groups, '[]') = '[]'
            OR living.groups @> jsonb_build_array(jsonb_build_array(leases.kind, leases.topic))
        GROUP BY leases.kind, leases.topic, leases.count
    ),
    held AS (SELECT kind, key, epoch, next_offset, halted, ctid::text FROM lease WHERE owner = $1)
    SELECT
        (SELECT count(*) FROM living) AS daemons,
        (SELECT coalesce(jsonb_agg(shared ORDER BY kind, topic), '[]') FROM shared) AS groups,
        EXISTS (SELECT FROM open_loss) AS has_open_loss,
        (SELECT held_since IS NOT NULL FROM installation) AS is_held,
        (SELECT coalesce(jsonb_agg(held ORDER BY kind, key), '[]') FROM held) AS owned
) AS standing

-- name: create_leases
-- Existing leases stay as they are.
INSERT INTO lease (kind, key, next_offset)
SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[])
ON CONFLICT (kind, key) DO NOTHING

-- name: claim
-- Leases without a live owner, of each group at most the wanted number. The statement skips a row that the transaction of a
-- frozen owner has locked. If another daemon claims a row during this statement, Postgres checks the new row, but against the
-- live daemons of the snapshot, which may lack the new owner. So the epoch must be the one of the snapshot.
WITH claimable AS (
    SELECT found.kind, found.key
    FROM unnest($2::text[], $3::text[], $4::bigint[]) AS wanted (kind, topic, number)
    CROSS JOIN LATERAL (
        SELECT lease.kind, lease.key
        FROM lease AS seen
        JOIN lease ON (lease.kind, lease.key, lease.epoch) = (seen.kind, seen.key, seen.epoch)
        WHERE seen.kind = wanted.kind AND coalesce(substring(seen.key FROM '^(.*)/'), '') = wanted.topic AND NOT lease.halted
          AND NOT EXISTS (SELECT FROM live_job WHERE live_job.id = seen.owner)
        ORDER BY lease.key
        LIMIT wanted.number
        FOR UPDATE OF lease SKIP LOCKED
    ) AS found
)
UPDATE lease
SET owner = $1, epoch = lease.epoch + 1
FROM claimable
WHERE (lease.kind, lease.key) = (claimable.kind, claimable.key)
RETURNING lease.kind, lease.key, lease.epoch, lease.next_offset, lease.halted

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

-- name: signed_from
SELECT key, signed_from FROM lease WHERE kind = 'partition' AND key = ANY ($1::text[])

-- name: sign_from
-- Unless a daemon lives that does not sign.
UPDATE lease
SET signed_from = signed.since
FROM unnest($1::text[], $2::bigint[]) AS signed (key, since)
WHERE lease.kind = 'partition'
  AND lease.key = signed.key
  AND lease.key IN (
      SELECT key
      FROM lease
      WHERE kind = 'partition' AND key = ANY ($1) AND signed_from IS NULL
        AND NOT EXISTS (SELECT FROM live_job WHERE NOT coalesce((settings ->> 'signs')::boolean, false))
      ORDER BY key
      FOR UPDATE
  )

-- name: leave
DELETE FROM job WHERE id = $1

-- name: forget_dead
DELETE FROM job WHERE heartbeat_at < clock_timestamp() - make_interval(secs => $1)

-- name: halt
-- Only as its owner, and if no later offset is recorded: a daemon that stood still may have lost the partition meanwhile.
WITH halted AS (
    UPDATE lease SET halted = true
    WHERE kind = 'partition' AND key = $1 AND owner = $2 AND next_offset <= $3
    RETURNING key
)
INSERT INTO ingest_incident AS open (partition, next_offset, log_start, log_end)
SELECT key, $3, $4, $5 FROM halted
ON CONFLICT (partition) WHERE resolved_at IS NULL
DO UPDATE SET next_offset = $3, log_start = $4, log_end = $5, at = clock_timestamp()
RETURNING open.id

-- name: incidents
SELECT partition, next_offset, log_start, log_end, at
FROM ingest_incident
WHERE resolved_at IS NULL AND ($1::text IS NULL OR partition > $1)
ORDER BY partition
LIMIT $2

-- name: lock_partition
SELECT FROM lease WHERE kind = 'partition' AND key = $1 FOR UPDATE

-- name: is_halted
SELECT FROM ingest_incident WHERE partition = $1 AND next_offset = $2 AND at = $3 AND resolved_at IS NULL

-- name: resume
-- From the halt that the user saw: a later one has another offset and another log.
WITH resolved AS (
    UPDATE ingest_incident
    SET resolved_at = clock_timestamp()
    WHERE partition = $1 AND next_offset = $2 AND at = $3 AND resolved_at IS NULL
    RETURNING partition
)
UPDATE lease
SET halted = false, next_offset = $4, owner = NULL, epoch = epoch + 1
FROM resolved
WHERE lease.kind = 'partition' AND lease.key = resolved.partition AND lease.halted
RETURNING lease.key

-- name: step_over
-- The owner reads again from the new offset: its epoch has passed.
UPDATE lease
SET next_offset = $3, owner = NULL, epoch = epoch + 1
WHERE kind = 'partition' AND key = $1 AND next_offset = $2 AND NOT halted
RETURNING key
