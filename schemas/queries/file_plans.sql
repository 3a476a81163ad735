-- name: limit_statements
SELECT set_config('statement_timeout', $1, true)

-- name: dags
-- DAGs as they stand. The number and the spec are NULL where the row of the version is missing.
SELECT
    dag.dag_id, dag.path, dag.is_paused, dag.is_stale, dag.held_since IS NOT NULL AS is_held, version.number AS version,
    version.spec, in_calendar(dag.due_at) AS due_at,
    (SELECT count(*) FROM dataset_dag_run_queue AS queue WHERE queue.target_dag_id = dag.dag_id) AS pending
FROM dag
LEFT JOIN dag_version AS version ON version.id = dag.version_id
WHERE dag.dag_id = ANY ($1::text[])

-- name: active_runs
SELECT run.dag_id, version.number AS version, run.state, count(*) AS runs
FROM dag_run AS run
JOIN dag_version AS version ON version.id = run.version_id
WHERE run.dag_id = ANY ($1::text[]) AND run.state IN ('queued', 'running')
GROUP BY run.dag_id, version.number, run.state
ORDER BY run.dag_id, version.number, run.state
