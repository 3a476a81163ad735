-- name: known_datasets
SELECT uri, id
FROM dataset
WHERE uri = ANY ($1::text[])

-- name: insert_datasets
-- Returns the new datasets.
INSERT INTO dataset (uri)
SELECT uri FROM unnest($1::text[]) AS uri ORDER BY uri
ON CONFLICT (uri) DO NOTHING
RETURNING id, uri

-- name: describe_datasets
-- The last description of a dataset wins.
UPDATE dataset
SET name = described.name, extra = described.extra
FROM (
    SELECT DISTINCT ON (uri) *
    FROM unnest($1::text[], $2::text[], $3::jsonb[]) WITH ORDINALITY AS row (uri, name, extra, number)
    ORDER BY uri, number DESC
) AS described
WHERE dataset.uri = described.uri AND (dataset.name, dataset.extra) IS DISTINCT FROM (described.name, described.extra)

-- name: record_events
-- Writes events to the ledger, and one row per consumer: pending, or discarded with the reason. Returns the DAGs with new pending
-- events; for a DAG that inspects events, with these events. The arrival records which consumers this statement could see; its id
-- is the id of its last event.
WITH new AS MATERIALIZED (
    SELECT nextval('dataset_event_id_seq') AS id, row.*
    FROM unnest(
        $1::bigint[], $2::text[], $3::text[], $4::jsonb[], $5::timestamptz[], $7::text[], $8::text[], $9::text[], $10::integer[]
    ) AS row (
        dataset_id, source, event_id, extra, occurred_at, source_dag_id, source_run_id, source_task_id, source_map_index
    )
),
arrival AS (
    INSERT INTO dataset_event_arrival (id) SELECT max(id) FROM new HAVING max(id) IS NOT NULL RETURNING id
),
event AS (
    INSERT INTO dataset_event (
        id, dataset_id, source, event_id, extra, occurred_at, source_dag_id, source_run_id, source_task_id, source_map_index,
        received_at, arrival_id
    )
    SELECT new.*, $6::timestamptz, arrival.id FROM new CROSS JOIN arrival
    RETURNING id, dataset_id
),
consumer AS (
    SELECT
        reference.dag_id, event.dataset_id, event.id AS dataset_event_id, dag.inspects_events,
        dag.is_paused AND NOT dag.keeps_paused AS is_dropped
    FROM event
    JOIN dag_schedule_dataset_reference AS reference USING (dataset_id)
    JOIN dag USING (dag_id)
),
discarded AS (
    INSERT INTO discarded_dataset_event (dag_id, dataset_event_id, reason, at)
    SELECT dag_id, dataset_event_id, 'the DAG was paused', $6 FROM consumer WHERE is_dropped
),
queued AS (
    INSERT INTO dataset_dag_run_queue (target_dag_id, dataset_id, dataset_event_id, created_at)
    SELECT dag_id, dataset_id, dataset_event_id, $6 FROM consumer WHERE NOT is_dropped
)
SELECT DISTINCT
    dag_id,
    CASE WHEN inspects_events THEN dataset_id END AS dataset_id,
    CASE WHEN inspects_events THEN dataset_event_id END AS dataset_event_id
FROM consumer
WHERE NOT is_dropped

-- name: note_ignored
-- Once a dataset has $4 of them, no other one is noted.
INSERT INTO ignored_field (dataset_id, name, first_at, last_at)
SELECT field.dataset_id, field.name, $3::timestamptz, $3::timestamptz
FROM (
    SELECT dataset_id, name, row_number() OVER (PARTITION BY dataset_id ORDER BY name) AS number
    FROM unnest($1::bigint[], $2::text[]) AS field (dataset_id, name)
) AS field
CROSS JOIN LATERAL (
    SELECT count(*) AS names, count(*) FILTER (WHERE known.name = field.name) AS same
    FROM ignored_field AS known WHERE known.dataset_id = field.dataset_id
) AS known
WHERE known.names + field.number <= $4 OR known.same > 0
ORDER BY field.dataset_id, field.name
ON CONFLICT (dataset_id, name) DO UPDATE SET last_at = excluded.last_at

-- name: ignored_fields
SELECT name
FROM ignored_field
WHERE dataset_id = (SELECT id FROM dataset WHERE uri = $1) AND last_at > now() - $2::interval
ORDER BY name

-- name: consume
-- The lock of their DAG protects these rows. With OFFSET 0 Postgres reads each row by its whole key, whatever the statistics.
WITH consumed AS (
    SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS row (dag_id, dataset_event_id, dag_run_id)
),
recorded AS (
    INSERT INTO dagrun_dataset_event (dag_id, dag_run_id, dataset_event_id)
    SELECT dag_id, dag_run_id, dataset_event_id FROM consumed
)
DELETE FROM dataset_dag_run_queue
WHERE ctid = ANY (
    ARRAY(
        SELECT queue.ctid
        FROM consumed
        CROSS JOIN LATERAL (
            SELECT ctid FROM dataset_dag_run_queue
            WHERE target_dag_id = consumed.dag_id AND dataset_event_id = consumed.dataset_event_id
            OFFSET 0
        ) AS queue
    )
)

-- name: discard
WITH discarded AS (
    SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[]) AS row (dag_id, dataset_event_id, reason)
),
recorded AS (
    INSERT INTO discarded_dataset_event (dag_id, dataset_event_id, reason, at)
    SELECT dag_id, dataset_event_id, reason, $4 FROM discarded
)
DELETE FROM dataset_dag_run_queue
WHERE ctid = ANY (
    ARRAY(
        SELECT queue.ctid
        FROM discarded
        CROSS JOIN LATERAL (
            SELECT ctid FROM dataset_dag_run_queue
            WHERE target_dag_id = discarded.dag_id AND dataset_event_id = discarded.dataset_event_id
            OFFSET 0
        ) AS queue
    )
)

-- name: list_datasets
-- Up to $4 events of each are counted.
SELECT
    dataset.uri,
    dataset.name,
    dataset.is_active,
    (SELECT count(DISTINCT dag_id) FROM dag_schedule_dataset_reference WHERE dataset_id = dataset.id) AS consumers,
    (SELECT count(*) FROM task_outlet_dataset_reference WHERE dataset_id = dataset.id) AS producers,
    (SELECT count(*) FROM (SELECT FROM dataset_event WHERE dataset_id = dataset.id LIMIT $4) AS event) AS events,
    ARRAY(
        SELECT name FROM ignored_field WHERE dataset_id = dataset.id AND last_at > now() - $5::interval ORDER BY name
    ) AS ignored_fields
FROM dataset
WHERE ($1::text IS NULL OR starts_with(dataset.uri, $1)) AND ($3::text IS NULL OR dataset.uri > $3)
ORDER BY dataset.uri
LIMIT $2

-- name: supplied
-- The datasets among these that a task updates or that had an event.
SELECT uri
FROM dataset
WHERE uri = ANY ($1::text[]) AND (
    EXISTS (SELECT FROM task_outlet_dataset_reference AS producer WHERE producer.dataset_id = dataset.id)
    OR EXISTS (SELECT FROM dataset_event AS event WHERE event.dataset_id = dataset.id)
)

-- name: pending_counts
-- The pending events of a DAG by dataset, the oldest $2 of each. Each dataset is found from the one before by the index.
WITH RECURSIVE pending AS (
    (
        SELECT dataset_id FROM dataset_dag_run_queue WHERE target_dag_id = $1
        ORDER BY target_dag_id, dataset_id, dataset_event_id LIMIT 1
    )
    UNION ALL
    SELECT following.dataset_id
    FROM pending
    CROSS JOIN LATERAL (
        SELECT dataset_id FROM dataset_dag_run_queue WHERE target_dag_id = $1 AND dataset_id > pending.dataset_id
        ORDER BY target_dag_id, dataset_id, dataset_event_id LIMIT 1
    ) AS following
)
SELECT dataset.uri, queue.events, queue.oldest_at
FROM pending
JOIN dataset ON dataset.id = pending.dataset_id
CROSS JOIN LATERAL (
    SELECT count(*) AS events, min(created_at) AS oldest_at
    FROM (
        SELECT created_at FROM dataset_dag_run_queue WHERE target_dag_id = $1 AND dataset_id = pending.dataset_id
        ORDER BY target_dag_id, dataset_id, dataset_event_id LIMIT $2
    ) AS counted
) AS queue
ORDER BY dataset.uri

-- name: events
-- The newest events of a dataset, or its events with the id that the producer gave. The extra of the first ones, of $5 bytes
-- together.
SELECT
    event.id AS number, event.uri, event.source, event.event_id AS id, event.occurred_at, event.received_at,
    CASE WHEN sum(event.extra_bytes) OVER (ORDER BY event.id DESC) <= $5::bigint THEN event.extra END AS extra,
    event.source_dag_id, event.source_run_id, event.source_task_id, event.source_map_index
FROM (
    SELECT event.*, dataset.uri
    FROM dataset
    JOIN dataset_event AS event ON event.dataset_id = dataset.id
    WHERE dataset.uri = $1 AND ($2::text IS NULL OR event.event_id = $2) AND ($4::bigint IS NULL OR event.id < $4)
    ORDER BY event.id DESC
    LIMIT $3
) AS event
ORDER BY event.id DESC

-- name: event
SELECT
    event.id AS number, dataset.uri, event.source, event.event_id AS id, event.occurred_at, event.received_at, event.extra,
    event.source_dag_id, event.source_run_id, event.source_task_id, event.source_map_index
FROM dataset_event AS event
JOIN dataset ON dataset.id = event.dataset_id
WHERE event.id = $1

-- name: made_by_runs
-- The first events that the tasks of each of these runs made, and the extra of the first of all, of $4 bytes together. OFFSET: as
-- in `pending.oldest`.
SELECT
    event.id AS number, dataset.uri, event.source, event.event_id AS id, event.occurred_at, event.received_at,
    CASE WHEN sum(event.extra_bytes) OVER (ORDER BY event.id) <= $4::bigint THEN event.extra END AS extra,
    event.source_dag_id, event.source_run_id, event.source_task_id, event.source_map_index
FROM unnest($1::text[], $2::text[]) AS run (dag_id, run_id)
CROSS JOIN LATERAL (
    SELECT * FROM dataset_event
    WHERE source_dag_id = run.dag_id AND source_run_id = run.run_id
    ORDER BY id LIMIT $3
    OFFSET 0
) AS event
JOIN dataset ON dataset.id = event.dataset_id
ORDER BY event.id

-- name: outcomes
-- The outcomes of these events, one per subscribed DAG.
SELECT
    event.id AS number, consumer.dag_id,
    CASE
        WHEN consumed.dag_run_id IS NOT NULL THEN 'consumed'
        WHEN discarded.reason IS NOT NULL THEN 'discarded'
        ELSE 'pending'
    END AS outcome,
    run.run_id, discarded.reason, run.state AS run_state,
    coalesce(run.created_at, discarded.at, queue.created_at) AS at
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
-- The first complete month, if the ledger has dropped events.
SELECT min(month) FILTER (WHERE state = 'whole' AND month > 0) FROM ledger_month HAVING bool_or(NOT was_empty)
