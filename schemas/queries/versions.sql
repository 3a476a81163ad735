-- name: graphs
SELECT id, dag_id, number, spec, octet_length(spec::text)
FROM dag_version
WHERE id = ANY ($1::bigint[])

-- name: current_version
SELECT version.spec
FROM dag
JOIN dag_version AS version ON version.id = dag.version_id
WHERE dag.dag_id = $1

-- name: task_names
SELECT DISTINCT run.version_id, task.task_index, task.task_id
FROM dag_run AS run
JOIN task_instance AS task ON task.dag_run_id = run.id
WHERE run.id = ANY ($1::bigint[]) AND is_task(task.task_index)

-- name: users
-- The DAGs that need these versions.
SELECT dag_id, version_id FROM dag WHERE version_id = ANY ($1::bigint[])
UNION
SELECT dag_id, version_id FROM dag_run WHERE version_id = ANY ($1::bigint[]) AND state IN ('queued', 'running')
