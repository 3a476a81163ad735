-- name: contexts
-- One row per event that a run consumed, and one row for a run without events, or with more events than $2. Events with more than
-- $3 bytes of extra in all come without it. Only the first row of a run has its conf.
-- LIMIT: as in `dags.activity`.
SELECT
    run.id, run.version_id,
    coalesce(run.events, 0) > $2::integer OR coalesce(event.bytes > $3::bigint, false) AS has_many_events,
    (SELECT true FROM task_result WHERE task_result.dag_run_id = run.id LIMIT 1) IS NOT NULL AS has_results,
    CASE WHEN coalesce(event.number, 1) = 1 THEN run.conf END AS conf,
    run.dag_id, run.run_id, run.run_type, run.run_after, run.logical_date, run.data_interval_start, run.data_interval_end,
    event.uri, event.source, event.event_id, event.occurred_at, CASE WHEN event.bytes <= $3 THEN event.extra END AS extra,
    event.source_dag_id, event.source_run_id, event.source_task_id, event.source_map_index
FROM dag_run AS run
LEFT JOIN LATERAL (
    SELECT
        dataset.uri, event.source, event.event_id, event.occurred_at, event.extra,
        event.source_dag_id, event.source_run_id, event.source_task_id, event.source_map_index,
        row_number() OVER (ORDER BY event.occurred_at, event.id) AS number, sum(event.extra_bytes) OVER () AS bytes
    FROM dagrun_dataset_event AS consumed
    JOIN dataset_event AS event ON event.id = consumed.dataset_event_id
    JOIN dataset ON dataset.id = event.dataset_id
    WHERE consumed.dag_run_id = run.id AND coalesce(run.events, 0) <= $2
) AS event ON true
WHERE run.id = ANY ($1::bigint[])
ORDER BY run.id, event.number

-- name: event_sizes
-- The events that a run consumed, in the order of their times.
SELECT event.id, event.extra_bytes
FROM dagrun_dataset_event AS consumed
JOIN dataset_event AS event ON event.id = consumed.dataset_event_id
WHERE consumed.dag_run_id = $1
ORDER BY event.occurred_at, event.id

-- name: events
-- OFFSET: as in `pending.oldest`.
SELECT
    dataset.uri, event.source, event.event_id AS id, event.occurred_at, event.extra::text AS extra,
    event.source_dag_id, event.source_run_id, event.source_task_id, event.source_map_index
FROM unnest($1::bigint[]) WITH ORDINALITY AS wanted (id, number)
CROSS JOIN LATERAL (SELECT * FROM dataset_event WHERE id = wanted.id OFFSET 0) AS event
JOIN dataset ON dataset.id = event.dataset_id
ORDER BY wanted.number

-- name: files
SELECT id, path, source FROM dag_version WHERE id = ANY ($1::bigint[])

-- name: modules
SELECT used.version_id, used.path, used.digest, module.source
FROM version_module AS used
JOIN module_source AS module USING (digest)
WHERE used.version_id = ANY ($1::bigint[])
