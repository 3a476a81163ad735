-- Each run that has started, and from when on a daemon knew that it was to.
CREATE VIEW limits_due AS
SELECT
    run.dag_id, run.run_id, run.run_type::text AS run_type, run.start_date,
    CASE run.run_type WHEN 'dataset' THEN events.known_at WHEN 'scheduled' THEN run.run_after ELSE run.created_at END AS known_at
FROM dag_run AS run
CROSS JOIN LATERAL (
    SELECT min(event.received_at) + interval '0.5 s' AS known_at
    FROM dagrun_dataset_event AS consumed
    JOIN dataset_event AS event ON event.id = consumed.dataset_event_id
    WHERE consumed.dag_run_id = run.id
) AS events
WHERE run.start_date IS NOT NULL
