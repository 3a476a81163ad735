-- Each run that has started, and from when on a daemon knew that it was to: events and moments of a timetable are come to a little
-- later than they are due.
CREATE VIEW limits_due AS
SELECT
    run.dag_id, run.run_id, run.run_type::text AS run_type, run.start_date,
    CASE run.run_type
        WHEN 'dataset' THEN events.first + interval '0.5 s'
        WHEN 'scheduled' THEN run.run_after + interval '0.5 s'
        ELSE run.created_at
    END AS known_at
FROM dag_run AS run
CROSS JOIN LATERAL (
    SELECT min(event.received_at) AS first
    FROM dagrun_dataset_event AS consumed
    JOIN dataset_event AS event ON event.id = consumed.dataset_event_id
    WHERE consumed.dag_run_id = run.id
) AS events
WHERE run.start_date IS NOT NULL
