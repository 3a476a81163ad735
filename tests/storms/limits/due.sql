-- When each run that has started became due, when that was known, and when it started.
CREATE VIEW limits_due AS
SELECT
    run.dag_id, run.run_id, run.run_type::text AS run_type, run.start_date, whole.max_active_runs,
    CASE run.run_type WHEN 'dataset' THEN events.first WHEN 'scheduled' THEN run.run_after ELSE run.created_at END AS due_at,
    CASE run.run_type WHEN 'dataset' THEN events.known_at WHEN 'scheduled' THEN run.run_after ELSE run.created_at END AS known_at
FROM dag_run AS run
JOIN limits_dag AS whole USING (version_id)
CROSS JOIN LATERAL (
    SELECT min(event.occurred_at) AS first, min(event.received_at) + interval '0.5 s' AS known_at
    FROM dagrun_dataset_event AS consumed
    JOIN dataset_event AS event ON event.id = consumed.dataset_event_id
    WHERE consumed.dag_run_id = run.id
) AS events
WHERE run.start_date IS NOT NULL
