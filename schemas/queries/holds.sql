-- name: hold
-- Returns the DAGs that were not held before. Cascades that come to them go on with other DAGs. A fault with a version is one of
-- this version: the DAG may have got another one since.
WITH held AS (
    UPDATE dag
    SET held_since = $3, hold_reason = fault.reason
    FROM unnest($1::text[], $2::text[], $4::bigint[]) AS fault (dag_id, reason, version_id)
    WHERE dag.dag_id = fault.dag_id AND dag.held_since IS NULL AND dag.version_id = coalesce(fault.version_id, dag.version_id)
    RETURNING dag.dag_id
),
woken AS (
    UPDATE backfill
    SET due_at = least(backfill.due_at, $3)
    FROM held
    WHERE backfill.stages ? held.dag_id AND backfill_is_active(backfill.state)
)
SELECT dag_id FROM held

-- name: versions_of
SELECT dag_id, version_id FROM dag WHERE dag_id = ANY ($1::text[])

-- name: hold_of
SELECT held_since AS since, hold_reason AS reason FROM dag WHERE dag_id = $1 AND held_since IS NOT NULL

-- name: held_dags
SELECT dag_id, held_since AS since, hold_reason AS reason FROM dag WHERE held_since IS NOT NULL ORDER BY dag_id LIMIT $1

-- name: former_runs
SELECT run.run_id
FROM dag_run AS run
JOIN dag USING (dag_id)
WHERE dag_id = $1 AND run.state IN ('queued', 'running') AND run.version_id <> dag.version_id
ORDER BY run.id
LIMIT $2

-- name: dag_of
-- The DAG of a run, an attempt, a deadline or a backfill. A token, if given, is that of the attempt.
SELECT dag_id FROM backfill WHERE id = $4::bigint
UNION ALL
SELECT dag_id
FROM dag_run
WHERE id = coalesce(
    $1::bigint,
    (
        SELECT dag_run_id
        FROM submission
        WHERE submission_id = $2::uuid
        AND ($5::text IS NULL OR $5 = attempt_token((SELECT secret FROM installation), submission_id))
    ),
    (SELECT dag_run_id FROM deadline WHERE deadline.id = $3::bigint)
)
