-- name: list_dags
-- The bounds of the id are there also without $1 and $2: by them, a plan for all parameters finds a DAG at once.
SELECT
    dag.dag_id,
    dag.path,
    dag.is_paused,
    dag.is_stale,
    in_calendar(dag.held_since) AS held_since,
    dag.hold_reason,
    coalesce(version.number, 0) AS version,
    version.spec -> 'schedule' AS schedule,
    coalesce(version.spec -> 'together' = 'true'::jsonb, false) AS together,
    (SELECT count(*) FROM dag_run WHERE dag_run.dag_id = dag.dag_id AND state = 'running') AS running,
    (SELECT count(*) FROM dag_run WHERE dag_run.dag_id = dag.dag_id AND state = 'queued') AS queued,
    (SELECT count(*) FROM (SELECT FROM dataset_dag_run_queue WHERE target_dag_id = dag.dag_id LIMIT $5) AS queue) AS pending,
    error.reason AS import_error,
    coalesce(version.spec -> 'tags', '[]'::jsonb) AS tags
FROM dag
LEFT JOIN dag_version AS version ON version.id = dag.version_id
LEFT JOIN import_error AS error ON error.path = dag.path
WHERE dag.dag_id BETWEEN coalesce($1::text, '') AND coalesce($1, chr(1114111))
  AND dag.dag_id > coalesce($2::text, '')
  AND ($3::text IS NULL OR position(lower($3) IN lower(dag.dag_id)) > 0)
  AND ($6::text IS NULL OR version.spec -> 'tags' ? $6)
  AND (
    $7::text IS NULL
    OR ($7 = 'broken' AND error.path IS NOT NULL)
    OR $7 = CASE
        WHEN dag.held_since IS NOT NULL THEN 'held' WHEN dag.is_stale THEN 'stale' WHEN dag.is_paused THEN 'paused' ELSE 'active'
    END
    OR $7 = (
        SELECT run.state::text FROM dag_run AS run
        WHERE $8::boolean AND run.dag_id = dag.dag_id AND run.order_at IS NOT NULL
        ORDER BY run.order_at DESC, run.id DESC LIMIT 1
    )
  )
ORDER BY dag.dag_id
LIMIT $4

-- name: list_ids
SELECT dag_id FROM dag WHERE NOT is_stale ORDER BY dag_id LIMIT $1

-- name: list_notes
SELECT kind, reason, first_at, last_at, times
FROM schedule_note
WHERE dag_id = $1
ORDER BY last_at DESC, kind, reason
LIMIT $2

-- name: list_import_errors
-- The files by path after $2 whose path contains $1. Their DAGs keep the version before; the first of them are named.
SELECT
    path, line, reason, at,
    ARRAY(
        SELECT dag_id FROM dag WHERE dag.path = import_error.path AND NOT dag.is_stale ORDER BY dag_id LIMIT 10
    ) AS dags
FROM import_error
WHERE ($1::text IS NULL OR strpos(path, $1) > 0) AND ($2::text IS NULL OR path > $2)
ORDER BY path
LIMIT $3

-- name: count_import_errors
SELECT count(*) FROM import_error

-- name: plans
-- DAGs with a timetable, without their tasks. `taken` are the first logical dates after the last tick that have a run already.
SELECT
    dag.dag_id, dag.version_id, version.spec - 'tasks' AS head, dag.is_paused, dag.is_stale, dag.last_logical_date,
    dag.last_interval_start, dag.last_interval_end, dag.timed_since,
    ARRAY(
        SELECT run.logical_date FROM dag_run AS run
        WHERE run.dag_id = dag.dag_id AND run.logical_date > coalesce(dag.last_logical_date, '-infinity')
        ORDER BY run.dag_id, run.logical_date
        LIMIT $2
    ) AS taken
FROM dag
JOIN dag_version AS version ON version.id = dag.version_id
WHERE jsonb_typeof(version.spec -> 'timetable') = 'object' AND ($1::text[] IS NULL OR dag.dag_id = ANY($1))

-- name: last_runs
-- The last runs of each DAG in the order of its grid, by its index.
SELECT last.dag_id, last.run_id, last.state, last.start_date, last.end_date, last.order_at
FROM unnest($1::text[]) AS wanted (dag_id)
CROSS JOIN LATERAL (
    SELECT run.id, run.dag_id, run.run_id, run.state, run.start_date, run.end_date, run.order_at
    FROM dag_run AS run
    WHERE run.dag_id = wanted.dag_id AND run.order_at IS NOT NULL
    ORDER BY run.order_at DESC, run.id DESC
    LIMIT $2
) AS last
ORDER BY last.dag_id, last.order_at, last.id
