-- name: mark
-- Inserted, not updated: a read passes over the dead version that each update leaves, and any open transaction delays vacuum.
INSERT INTO commit_mark (daemon, backend, number, at)
VALUES ($1, $2, $3, clock_timestamp())

-- name: marks
-- From $2 on: until a vacuum, the index still leads to the markers before, each of which was deleted.
SELECT DISTINCT ON (backend) backend, number, at FROM commit_mark WHERE daemon = $1 AND number >= $2 ORDER BY backend, number DESC

-- name: forget_spent
DELETE FROM commit_mark WHERE daemon = $1 AND number = ANY ($2::bigint[])

-- name: server_identity
-- A standby has no timeline of its own. `inherited_at` is when the primary made the last commit that a promoted server got.
SELECT
    (SELECT system_identifier FROM pg_control_system())
    || '/' || (SELECT oid FROM pg_database WHERE datname = current_database()) AS database,
    CASE WHEN pg_is_in_recovery() THEN NULL ELSE substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) END AS timeline,
    pg_last_xact_replay_timestamp() AS inherited_at

-- name: record_loss
INSERT INTO commit_loss (timeline, since, until, found_by)
VALUES ($1, $2, $3, $4)
ON CONFLICT (timeline) WHERE settled_at IS NULL
DO UPDATE SET since = least(commit_loss.since, excluded.since), until = greatest(commit_loss.until, excluded.until)
RETURNING id, xmax = 0

-- name: lock_dags
-- The DAGs of active runs: a decision about a DAG starts its queued runs under its lock alone, with the numbers that it has read.
SELECT dag_id
FROM dag
WHERE dag_id IN (SELECT dag_id FROM dag_run WHERE state IN ('queued', 'running'))
ORDER BY dag_id
FOR NO KEY UPDATE

-- name: skip_numbers
-- The lost commits may have published higher numbers of these runs; no number may be published twice. Running runs come first,
-- then queued runs by id; the next numbers of queued runs beyond $2 were not published yet.
WITH active AS MATERIALIZED (SELECT id, state FROM dag_run WHERE state IN ('queued', 'running')),
    first AS MATERIALIZED (SELECT id FROM active ORDER BY state DESC, id LIMIT $2)
UPDATE dag_run
SET state_seq = state_seq + $1, task_seq = CASE WHEN task_seq > 0 THEN task_seq + $1 ELSE 0 END
WHERE id IN (SELECT id FROM dag_run WHERE id IN (SELECT id FROM first) ORDER BY id FOR NO KEY UPDATE)

-- name: any_open
SELECT EXISTS (SELECT FROM open_loss)

-- name: list_losses
SELECT id, since, until, timeline, found_at, found_by, settled_at, settled_by, settled_because
FROM commit_loss
WHERE ($1 OR settled_at IS NULL) AND ($2::bigint IS NULL OR id < $2)
ORDER BY id DESC
LIMIT $3

-- name: settle_loss
UPDATE commit_loss
SET settled_at = now(), settled_by = $2, settled_because = $3
WHERE id = $1 AND settled_at IS NULL
RETURNING id

-- name: forget_daemon
DELETE FROM commit_mark WHERE daemon = $1

-- name: forget_marks
DELETE FROM commit_mark WHERE at < clock_timestamp() - make_interval(secs => $1)
