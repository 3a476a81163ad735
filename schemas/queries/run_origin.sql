-- name: origin
-- The number of events is unknown for a run of an earlier Tidegate whose events are all older than the retention.
SELECT
    run.id, run.run_type, run.state, run.run_after, run.logical_date, run.data_interval_start, run.data_interval_end,
    run.created_at, run.creator, run.cause, run.start_date, run.end_date,
    coalesce(run.events, (SELECT nullif(count(*), 0) FROM dagrun_dataset_event AS event WHERE event.dag_run_id = run.id)) AS events,
    version.number AS version, version.created_at AS version_at, version.path, version.spec
FROM dag_run AS run
JOIN dag_version AS version ON version.id = run.version_id
WHERE run.dag_id = $1 AND run.run_id = $2

-- name: consumed
-- Events older than the retention have nothing but their number.
SELECT
    consumed.dataset_event_id AS number, dataset.uri, event.source, event.event_id AS id, event.occurred_at, event.received_at,
    event.extra
FROM dagrun_dataset_event AS consumed
LEFT JOIN dataset_event AS event ON event.id = consumed.dataset_event_id
LEFT JOIN dataset ON dataset.id = event.dataset_id
WHERE consumed.dag_run_id = $1
ORDER BY event.received_at, consumed.dataset_event_id

-- name: steps
-- The time at which a task became ready is known of its newest attempt alone: a retry overwrites it.
SELECT
    task.task_id, task.task_index, attempt.try_number,
    CASE WHEN attempt.try_number = task.try_number THEN task.scheduled_at END AS turn_at,
    attempt.created_at AS admitted_at, attempt.submitted_at, attempt.started_at, attempt.ended_at, attempt.state,
    attempt.host
FROM submission AS attempt
JOIN task_instance AS task USING (dag_run_id, task_index)
WHERE attempt.dag_run_id = $1
ORDER BY attempt.created_at, attempt.task_index
LIMIT $2
