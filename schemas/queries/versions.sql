-- name: graphs
SELECT id, dag_id, number, spec, octet_length(spec::text)
FROM dag_version
WHERE id = ANY ($1::bigint[])

-- name: current_version
SELECT version.spec
FROM dag
JOIN dag_version AS version ON version.id = dag.version_id
WHERE dag.dag_id = $1

-- name: users
-- The DAGs that need these versions.
SELECT dag_id, version_id FROM dag WHERE version_id = ANY ($1::bigint[])
UNION
SELECT dag_id, version_id FROM dag_run WHERE version_id = ANY ($1::bigint[]) AND state IN ('queued', 'running')
