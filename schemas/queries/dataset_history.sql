-- name: events
-- The newest events of a dataset, or the one that its producer calls so.
SELECT event.id AS number, event.source, event.event_id AS id, event.occurred_at, event.received_at, event.extra
FROM dataset
JOIN dataset_event AS event ON event.dataset_id = dataset.id
WHERE dataset.uri = $1 AND ($2::text IS NULL OR event.event_id = $2)
ORDER BY event.id DESC
LIMIT $3

-- name: outcomes
-- What became of these events for each of the DAGs that waited for them.
SELECT
    event.id AS number, consumer.dag_id,
    CASE
        WHEN consumed.dag_run_id IS NOT NULL THEN 'consumed'
        WHEN discarded.reason IS NOT NULL THEN 'discarded'
        ELSE 'pending'
    END AS outcome,
    run.run_id, discarded.reason
FROM dataset_event AS event
CROSS JOIN LATERAL (
    SELECT DISTINCT dag_id FROM dataset_subscription AS subscription WHERE subscription.dataset_id = event.dataset_id
) AS consumer
LEFT JOIN dataset_dag_run_queue AS queue
    ON (queue.target_dag_id, queue.dataset_id, queue.dataset_event_id) = (consumer.dag_id, event.dataset_id, event.id)
LEFT JOIN dagrun_dataset_event AS consumed ON (consumed.dag_id, consumed.dataset_event_id) = (consumer.dag_id, event.id)
LEFT JOIN dag_run AS run ON run.id = consumed.dag_run_id
LEFT JOIN discarded_dataset_event AS discarded ON (discarded.dag_id, discarded.dataset_event_id) = (consumer.dag_id, event.id)
WHERE event.id = ANY ($1::bigint[])
  AND (queue.dataset_event_id IS NOT NULL OR consumed.dag_run_id IS NOT NULL OR discarded.reason IS NOT NULL)
ORDER BY event.id DESC, consumer.dag_id

-- name: whole_since
-- The first month of which there is everything, if the ledger had events before.
SELECT min(month) FILTER (WHERE state = 'whole' AND month > 0) FROM ledger_month HAVING bool_or(NOT was_empty)
