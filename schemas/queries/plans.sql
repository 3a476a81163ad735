-- name: plans
-- DAGs with a timetable, without their tasks. `taken` are the logical dates after the last tick that have a run already.
SELECT
    dag.dag_id, dag.version_id, version.spec - 'tasks' AS head, dag.is_paused, dag.is_stale, dag.last_logical_date,
    dag.last_interval_start, dag.last_interval_end, dag.timed_since,
    ARRAY(
        SELECT run.logical_date FROM dag_run AS run
        WHERE run.dag_id = dag.dag_id AND run.logical_date > coalesce(dag.last_logical_date, '-infinity')
    ) AS taken
FROM dag
JOIN dag_version AS version ON version.id = dag.version_id
WHERE jsonb_typeof(version.spec -> 'timetable') = 'object' AND ($1::text IS NULL OR dag.dag_id = $1)
