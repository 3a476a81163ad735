-- name: secret
SELECT secret FROM installation

-- name: identity
-- The same on a promoted standby and in a copy, another one in any other database.
SELECT coalesce(
    (SELECT identity FROM installation),
    (SELECT system_identifier FROM pg_control_system())
    || '/' || (SELECT oid FROM pg_database WHERE datname = current_database())
)

-- name: exists
SELECT to_regclass('installation') IS NOT NULL AND EXISTS (
    SELECT FROM pg_attribute WHERE attrelid = to_regclass('installation') AND attname = 'held_since' AND NOT attisdropped
)

-- name: read
SELECT
    coalesce(identity, '') AS identity, coalesce(home, '') AS home, restores, held_since,
    coalesce(hold_reason, '') AS hold_reason, lost_since, files_read_at IS NOT NULL AS files_are_read
FROM installation

-- name: ahead
-- The greatest transaction id of subscriptions and of the newest arrivals, if it is none of this cluster: 0 if it is.
-- Transactions in progress have less than $1 ids; arrivals of older events have smaller ones.
SELECT CASE WHEN stored > (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint + xact_shift FROM installation)
    THEN stored ELSE 0 END
FROM (
    SELECT greatest(
        (SELECT max(began_in)::text::bigint FROM dataset_subscription),
        (SELECT max(ended_in)::text::bigint FROM dataset_subscription),
        (SELECT max(pg_snapshot_xmax(seen)::text::bigint) FROM (
            SELECT seen FROM dataset_event_arrival ORDER BY id DESC LIMIT $1
        ) AS newest),
        0
    ) AS stored
) AS found

-- name: newest_arrival_ahead
-- Whether the newest arrival has a transaction id that this cluster has not given out yet.
SELECT coalesce((
    SELECT xact::text::bigint > pg_snapshot_xmax(pg_current_snapshot())::text::bigint + xact_shift
    FROM dataset_event_arrival CROSS JOIN installation
    ORDER BY id DESC
    LIMIT 1
), false)

-- name: settle_in
-- The first daemon of a database gives it an identity. A database that daemons of a former version worked with keeps the one that
-- the ids of its attempts have; they have read its DAG folder.
UPDATE installation
SET home = $1, identity = $1 || CASE WHEN EXISTS (SELECT FROM lease) THEN '' ELSE '/' || gen_random_uuid() END,
    files_read_at = coalesce(files_read_at, CASE WHEN EXISTS (SELECT FROM dag_file) THEN clock_timestamp() END)
WHERE home IS NULL

-- name: hold
-- Every lease passes to no daemon: what daemons have read or claimed under one is fenced. The first reason counts.
WITH held AS (
    UPDATE installation SET held_since = clock_timestamp(), hold_reason = $1, lost_since = $2
    WHERE held_since IS NULL
    RETURNING held_since
)
UPDATE lease SET owner = NULL, epoch = epoch + 1 WHERE EXISTS (SELECT FROM held)

-- name: lock
SELECT FROM installation FOR UPDATE

-- name: release
-- Ids of attempts contain those of their runs, and the ids of dataset runs those of their events: neither is given out twice.
-- The receipts and markers of before are void, and so are the daemons. A copy has another secret: what was signed before counts
-- as history.
WITH moved AS (
    SELECT
        setval('dag_run_id_seq', nextval('dag_run_id_seq') + $3),
        setval('dataset_event_id_seq', nextval('dataset_event_id_seq') + $3)
),
gone AS (
    DELETE FROM job
),
unsigned AS (
    UPDATE lease SET signed_from = NULL WHERE kind = 'partition'
)
UPDATE installation
SET home = $1, identity = $2, restores = restores + 1, xact_shift = CASE $4::bigint WHEN 0 THEN xact_shift ELSE $4 END,
    held_since = NULL, hold_reason = NULL, lost_since = NULL, files_read_at = NULL,
    secret = CASE WHEN identity = $2 THEN secret ELSE uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) END
FROM moved

-- name: pause_all
UPDATE dag SET is_paused = true, paused_at = now() WHERE NOT is_paused

-- name: timed_dags
SELECT dag_id, version_id, timed_since, last_logical_date, last_interval_start, last_interval_end
FROM dag
WHERE timed_since IS NOT NULL AND NOT is_stale
ORDER BY dag_id
FOR NO KEY UPDATE

-- name: pass_ticks
UPDATE dag
SET last_logical_date = passed.logical_date, last_interval_start = passed.interval_start, last_interval_end = passed.interval_end,
    due_at = now()
FROM unnest($1::text[], $2::timestamptz[], $3::timestamptz[], $4::timestamptz[])
    AS passed (dag_id, logical_date, interval_start, interval_end)
WHERE dag.dag_id = passed.dag_id

-- name: move_partitions
INSERT INTO lease (kind, key, next_offset)
SELECT 'partition', * FROM unnest($1::text[], $2::bigint[])
ON CONFLICT (kind, key) DO UPDATE SET next_offset = excluded.next_offset, owner = NULL, epoch = lease.epoch + 1, halted = false

-- name: resolve_incidents
UPDATE ingest_incident SET resolved_at = clock_timestamp() WHERE resolved_at IS NULL AND partition = ANY ($1::text[])

-- name: forget_ends
DELETE FROM restored_end

-- name: store_ends
-- The ends with the right token of attempts that no row has, of runs that are there. Of a run that was made later, none: another
-- run may get its number.
INSERT INTO restored_end (submission_id, body)
SELECT given.submission_id, given.body
FROM unnest($1::uuid[], $2::text[], $3::bigint[], $4::jsonb[]) AS given (submission_id, token, dag_run_id, body)
WHERE given.token = attempt_token((SELECT secret FROM installation), given.submission_id)
  AND EXISTS (SELECT FROM dag_run WHERE dag_run.id = given.dag_run_id)
  AND NOT EXISTS (SELECT FROM submission WHERE submission.submission_id = given.submission_id)
ON CONFLICT (submission_id) DO NOTHING

-- name: tokens
SELECT id, attempt_token((SELECT secret FROM installation), id) FROM unnest($1::uuid[]) AS given (id)

-- name: known_runs
-- Of these runs, the ones that are there.
SELECT dag_id, run_id FROM unnest($1::text[], $2::text[]) AS given (dag_id, run_id)
WHERE EXISTS (SELECT FROM dag_run WHERE (dag_run.dag_id, dag_run.run_id) = (given.dag_id, given.run_id))

-- name: known_attempts
SELECT submission_id FROM submission WHERE submission_id = ANY ($1::uuid[])

-- name: open_attempts
SELECT count(*) FROM open_attempt

-- name: newest_commit
-- The newest commit of a daemon, and the newest heartbeat: what came after is not in the database.
SELECT greatest((SELECT max(at) FROM commit_mark), (SELECT max(heartbeat_at) FROM job))

-- name: files_are_read
SELECT files_read_at IS NOT NULL FROM installation

-- name: note_files_read
UPDATE installation SET files_read_at = clock_timestamp() WHERE files_read_at IS NULL
