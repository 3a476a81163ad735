-- name: referenced
-- The referenced datasets of each DAG with a pending event; one row of the queue is read for each.
SELECT reference.dag_id, dataset.id, dataset.uri
FROM dag_schedule_dataset_reference AS reference
JOIN dataset ON dataset.id = reference.dataset_id
JOIN unnest($1::text[], $2::bigint[]) AS target (dag_id, low_watermark) ON target.dag_id = reference.dag_id
WHERE EXISTS (
    SELECT FROM dataset_dag_run_queue AS queue
    WHERE queue.target_dag_id = reference.dag_id
      AND queue.dataset_id = reference.dataset_id
      AND queue.dataset_event_id >= target.low_watermark
)

-- name: oldest
-- The oldest pending events of each DAG, at most `event_limit`, and the bytes of their extra. The lock of the DAG protects these
-- rows: no other transaction deletes one. OFFSET: as in `tasks.results`.
SELECT
    queue.target_dag_id, queue.dataset_id, queue.dataset_event_id, dataset.uri, event.occurred_at,
    queue.created_at AS arrived_at, event.extra_bytes
FROM unnest($1::text[], $2::integer[], $3::bigint[]) AS target (dag_id, event_limit, low_watermark)
CROSS JOIN LATERAL (
    SELECT * FROM dataset_dag_run_queue
    WHERE target_dag_id = target.dag_id AND dataset_event_id >= target.low_watermark
    ORDER BY target_dag_id, dataset_event_id
    LIMIT target.event_limit
) AS queue
JOIN dataset ON dataset.id = queue.dataset_id
CROSS JOIN LATERAL (SELECT * FROM dataset_event WHERE id = queue.dataset_event_id OFFSET 0) AS event
ORDER BY queue.target_dag_id, queue.dataset_event_id

-- name: oldest_of_each
-- The oldest pending event of each dataset of these DAGs.
SELECT
    queue.target_dag_id, queue.dataset_id, queue.dataset_event_id, dataset.uri, event.occurred_at,
    queue.created_at AS arrived_at, event.extra_bytes
FROM unnest($1::text[], $2::bigint[]) AS target (dag_id, low_watermark)
JOIN dag_schedule_dataset_reference AS reference ON reference.dag_id = target.dag_id
CROSS JOIN LATERAL (
    SELECT * FROM dataset_dag_run_queue
    WHERE target_dag_id = target.dag_id AND dataset_id = reference.dataset_id AND dataset_event_id >= target.low_watermark
    ORDER BY target_dag_id, dataset_id, dataset_event_id
    LIMIT 1
) AS queue
JOIN dataset ON dataset.id = queue.dataset_id
CROSS JOIN LATERAL (SELECT * FROM dataset_event WHERE id = queue.dataset_event_id OFFSET 0) AS event

-- name: arrived
-- New events of DAGs whose queue is not read. One row of each event has its extra: the events of a batch may have many DAGs.
SELECT
    queue.target_dag_id, queue.dataset_id, queue.dataset_event_id, dataset.uri, event.occurred_at,
    queue.created_at AS arrived_at, event.extra_bytes,
    CASE WHEN row_number() OVER (PARTITION BY event.id ORDER BY new.dag_id) = 1 THEN event.extra::text END AS extra
FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS new (dag_id, dataset_id, dataset_event_id)
JOIN dataset_dag_run_queue AS queue
    ON (queue.target_dag_id, queue.dataset_event_id) = (new.dag_id, new.dataset_event_id)
JOIN dataset ON dataset.id = queue.dataset_id
JOIN dataset_event AS event ON event.id = queue.dataset_event_id

-- name: extras
-- OFFSET: as in `oldest`.
SELECT event.id, event.extra::text
FROM unnest($1::bigint[]) AS wanted (id)
CROSS JOIN LATERAL (SELECT id, extra FROM dataset_event WHERE id = wanted.id OFFSET 0) AS event

-- name: count
-- The pending events of these DAGs, counted up to `most`, and the arrival of the newest.
SELECT
    target.dag_id,
    (
        SELECT count(*) FROM (
            SELECT FROM dataset_dag_run_queue
            WHERE target_dag_id = target.dag_id AND dataset_event_id >= target.low_watermark
            ORDER BY target_dag_id, dataset_event_id
            LIMIT target.most
        ) AS counted
    ) AS events,
    (
        SELECT created_at FROM dataset_dag_run_queue
        WHERE target_dag_id = target.dag_id
        ORDER BY target_dag_id DESC, dataset_event_id DESC
        LIMIT 1
    ) AS newest_at
FROM unnest($1::text[], $2::integer[], $3::bigint[]) AS target (dag_id, most, low_watermark)
