-- name: list
-- Datasets by URI whose URI contains $1, after the URI $2.
SELECT
    dataset.uri, dataset.is_active,
    (SELECT count(*) FROM task_outlet_dataset_reference AS producer WHERE producer.dataset_id = dataset.id) AS producers,
    consumer.consumers, consumer.pending
FROM (
    SELECT id, uri, is_active FROM dataset
    WHERE ($1::text IS NULL OR strpos(uri, $1) > 0) AND ($2::text IS NULL OR uri > $2)
    ORDER BY uri LIMIT $3
) AS dataset
CROSS JOIN LATERAL (
    SELECT count(*) AS consumers, coalesce(sum(queue.events), 0)::bigint AS pending
    FROM (SELECT DISTINCT dag_id FROM dag_schedule_dataset_reference WHERE dataset_id = dataset.id) AS reference
    CROSS JOIN LATERAL (
        SELECT count(*) AS events FROM (
            SELECT FROM dataset_dag_run_queue WHERE (target_dag_id, dataset_id) = (reference.dag_id, dataset.id) LIMIT $4
        ) AS queued
    ) AS queue
) AS consumer
ORDER BY dataset.uri

-- name: rhythm
-- The last event of these datasets to arrive, whatever time it is about; the mean and the longest time between their last $2.
-- Events less than $3 s apart are one burst. Fewer than $4 intervals, or ones that take less than $5 s together, say nothing.
-- For these, an event counts from its arrival at the latest: a producer may state a time in the future.
SELECT
    dataset.uri, last.last_event_at,
    CASE WHEN last.gaps >= $4::bigint AND last.span_s >= $5::float8 THEN last.interval_s END AS interval_s,
    CASE WHEN last.gaps >= $4::bigint AND last.span_s >= $5::float8 THEN last.longest_s END AS longest_s
FROM dataset
CROSS JOIN LATERAL (
    SELECT
        (array_agg(received_at ORDER BY id DESC))[1] AS last_event_at,
        count(*) FILTER (WHERE gap_s >= $3::float8) AS gaps, sum(gap_s) AS span_s,
        avg(gap_s) FILTER (WHERE gap_s >= $3::float8) AS interval_s, max(gap_s) AS longest_s
    FROM (
        SELECT id, received_at, extract(epoch FROM occurred_at - lag(occurred_at) OVER (ORDER BY occurred_at))::float8 AS gap_s
        FROM (
            SELECT id, in_calendar(least(occurred_at, received_at)) AS occurred_at, in_calendar(received_at) AS received_at
            FROM dataset_event WHERE dataset_id = dataset.id ORDER BY id DESC LIMIT $2
        ) AS event
    ) AS spaced
) AS last
WHERE dataset.uri = ANY ($1::text[])

-- name: search
SELECT uri FROM dataset WHERE strpos(uri, $1) > 0 ORDER BY uri LIMIT $2

-- name: producers
-- The tasks whose outlet a dataset is.
SELECT producer.dag_id, producer.task_id
FROM dataset JOIN task_outlet_dataset_reference AS producer ON producer.dataset_id = dataset.id
WHERE dataset.uri = $1
ORDER BY producer.dag_id, producer.task_id
LIMIT $2

-- name: consumers
-- The DAGs that a dataset starts, with its pending events for each, counted up to $3.
SELECT reference.dag_id, queue.events AS pending, queue.oldest_at
FROM dataset
CROSS JOIN LATERAL (SELECT DISTINCT dag_id FROM dag_schedule_dataset_reference WHERE dataset_id = dataset.id) AS reference
CROSS JOIN LATERAL (
    SELECT count(*) AS events, min(created_at) AS oldest_at
    FROM (
        SELECT created_at FROM dataset_dag_run_queue WHERE (target_dag_id, dataset_id) = (reference.dag_id, dataset.id)
        ORDER BY target_dag_id, dataset_id, dataset_event_id LIMIT $3
    ) AS counted
) AS queue
WHERE dataset.uri = $1
ORDER BY reference.dag_id
LIMIT $2

-- name: first
SELECT uri FROM dataset WHERE is_active ORDER BY uri LIMIT $1

-- name: edges
-- The edges of these DAGs and of these datasets: a DAG with a dataset that it updates (`is_outlet`), or that starts it.
WITH wanted AS MATERIALIZED (
    SELECT id, uri FROM dataset WHERE uri = ANY ($2::text[])
)
SELECT edge.dag_id, edge.uri, edge.is_outlet
FROM (
    SELECT outlet.dag_id, dataset.uri, true AS is_outlet
    FROM task_outlet_dataset_reference AS outlet JOIN dataset ON dataset.id = outlet.dataset_id
    WHERE outlet.dag_id = ANY ($1::text[])
    UNION
    SELECT reference.dag_id, dataset.uri, false
    FROM dag_schedule_dataset_reference AS reference JOIN dataset ON dataset.id = reference.dataset_id
    WHERE reference.dag_id = ANY ($1::text[])
    UNION
    SELECT outlet.dag_id, wanted.uri, true
    FROM wanted JOIN task_outlet_dataset_reference AS outlet ON outlet.dataset_id = wanted.id
    UNION
    SELECT reference.dag_id, wanted.uri, false
    FROM wanted JOIN dag_schedule_dataset_reference AS reference ON reference.dataset_id = wanted.id
) AS edge
ORDER BY edge.uri, edge.dag_id, edge.is_outlet
LIMIT $3
