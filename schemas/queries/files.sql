-- name: lock_files
-- One transaction at a time stores DAG files, so that two files cannot both claim a new DAG id.
SELECT pg_advisory_xact_lock(hashtext('tidegate.dag_file'))

-- name: files
SELECT path, digest, absent_scans
FROM dag_file
WHERE path = ANY ($1::text[])

-- name: stored_dags
-- The spec and the digest are NULL where the row of the version is missing.
SELECT dag.dag_id, dag.path, dag.is_stale, dag.version_id,
    coalesce(version.number, (SELECT max(other.number) FROM dag_version AS other WHERE other.dag_id = dag.dag_id), 0) AS number,
    version.spec, version.digest
FROM dag
LEFT JOIN dag_version AS version ON version.id = dag.version_id
WHERE dag.path = ANY ($1::text[]) OR dag.dag_id = ANY ($2::text[])

-- name: reserve_versions
SELECT nextval('dag_version_id_seq') FROM generate_series(1, $1)

-- name: record_files
INSERT INTO dag_file (path, digest, absent_scans, parse_duration_s, imports)
SELECT * FROM unnest($1::text[], $2::text[], $3::integer[], $4::double precision[], $5::jsonb[])
ON CONFLICT (path) DO UPDATE
SET digest = excluded.digest,
    absent_scans = excluded.absent_scans,
    parse_duration_s = excluded.parse_duration_s,
    imports = excluded.imports,
    parsed_at = now()

-- name: record_errors
INSERT INTO import_error (path, line, reason)
SELECT * FROM unnest($1::text[], $2::integer[], $3::text[])
ON CONFLICT (path) DO UPDATE
SET line = excluded.line, reason = excluded.reason, at = now()

-- name: clear_errors
DELETE FROM import_error WHERE path = ANY ($1::text[])

-- name: insert_versions
INSERT INTO dag_version (id, dag_id, number, spec, path, digest, source)
SELECT * FROM unnest($1::bigint[], $2::text[], $3::integer[], $4::jsonb[], $5::text[], $6::text[], $7::text[])

-- name: insert_modules
INSERT INTO module_source (digest, source)
SELECT DISTINCT ON (digest) digest, source FROM unnest($1::text[], $2::text[]) AS new (digest, source)
ON CONFLICT (digest) DO NOTHING

-- name: insert_version_modules
INSERT INTO version_module (version_id, path, digest)
SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[])

-- name: delete_unused_modules
DELETE FROM module_source AS module
WHERE NOT EXISTS (SELECT FROM version_module AS used WHERE used.digest = module.digest)

-- name: swap_versions
-- Only a new DAG begins paused if its version says so: users pause the others.
-- The clock visits a new DAG with a timetable or an input deadline at once, and a DAG that was held: its version releases it.
INSERT INTO dag (dag_id, path, version_id, due_at, timed_since, inspects_events, keeps_paused, is_paused, paused_at)
SELECT
    dag_id, path, version_id, CASE WHEN is_timed OR has_deadline THEN $8::timestamptz END,
    CASE WHEN is_timed THEN $8::timestamptz END, inspects_events, keeps_paused, is_paused,
    CASE WHEN is_paused THEN now() END
FROM unnest(
    $1::text[], $2::text[], $3::bigint[], $4::boolean[], $5::boolean[], $6::boolean[], $7::boolean[], $9::boolean[]
) AS new (dag_id, path, version_id, is_timed, has_deadline, inspects_events, keeps_paused, is_paused)
ON CONFLICT (dag_id) DO UPDATE
SET path = excluded.path,
    version_id = excluded.version_id,
    is_stale = false,
    inspects_events = excluded.inspects_events,
    keeps_paused = excluded.keeps_paused,
    held_since = NULL,
    hold_reason = NULL,
    released_at = CASE WHEN dag.held_since IS NULL THEN dag.released_at ELSE clock_timestamp() END,
    due_at = CASE WHEN dag.held_since IS NULL THEN dag.due_at ELSE $8::timestamptz END,
    timed_since = CASE WHEN excluded.timed_since IS NOT NULL THEN coalesce(dag.timed_since, excluded.timed_since) END

-- name: adopt
UPDATE dag
SET path = change.path, is_stale = false
FROM unnest($1::text[], $2::text[]) AS change (dag_id, path)
WHERE dag.dag_id = change.dag_id

-- name: mark_stale
UPDATE dag SET is_stale = true, stale_at = now() WHERE dag_id = ANY ($1::text[])

-- name: known
SELECT path, digest, CASE WHEN imports <> '{}' THEN imports END AS imports
FROM dag_file
WHERE digest IS NOT NULL OR absent_scans < $1
