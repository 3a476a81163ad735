-- name: dag
-- As `lock`, without it, and without an id for a run.
SELECT
    dag_id, version_id, is_paused, is_stale, 0, failed_runs, last_logical_date, last_interval_start, last_interval_end, due_at,
    timed_since, dataset_run_at, deadline_at, turn, history_in
FROM dag
WHERE dag_id = $1

-- name: around_dag
-- What is known around a DAG beside its own row.
SELECT
    dag.path, version.number AS version, dag.paused_at, dag.stale_at, error.reason AS import_error, error.at AS broken_since,
    ARRAY(
        SELECT run.run_id FROM dag_run AS run
        WHERE run.dag_id = dag.dag_id AND run.state = 'running'
        ORDER BY run.order_at, run.id
        LIMIT 5
    ) AS running
FROM dag
JOIN dag_version AS version ON version.id = dag.version_id
LEFT JOIN import_error AS error ON error.path = dag.path
WHERE dag.dag_id = $1

-- name: discards
-- Of the last events that made no run of a DAG, how many for which reason.
SELECT reason, count(*) AS events, max(at) AS last_at
FROM (
    SELECT reason, at FROM discarded_dataset_event WHERE dag_id = $1 ORDER BY dataset_event_id DESC LIMIT 1000
) AS last
GROUP BY reason
ORDER BY last_at DESC
