-- name: graphs
SELECT id, spec
FROM dag_version
WHERE id = ANY ($1::bigint[])

-- name: current_version
SELECT version.spec
FROM dag
JOIN dag_version AS version ON version.id = dag.version_id
WHERE dag.dag_id = $1
