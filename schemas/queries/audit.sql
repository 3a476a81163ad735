-- name: page_of_events
-- The next events of the ledger: the last id, their number, and how many are older than the recording of subscriptions.
SELECT max(id) AS last, count(*) AS events, count(*) FILTER (WHERE arrival_id IS NULL) AS unproven
FROM (SELECT id, arrival_id FROM dataset_event WHERE id > $1 ORDER BY id LIMIT $2) AS page

-- name: count_outcomes
-- The number of outcomes of each kind; a subscriber without an outcome is a row of its own. A DAG whose history was deleted in
-- part may lack the outcomes of earlier events.
WITH event AS MATERIALIZED (
    SELECT id, dataset_id, occurred_at, received_at, arrival_id FROM dataset_event WHERE id > $1 AND id <= $2
),
due AS MATERIALIZED (
    SELECT DISTINCT event.id, event.dataset_id, subscription.dag_id
    FROM event
    CROSS JOIN subscriptions_owed(event.dataset_id, event.arrival_id, event.occurred_at) AS subscription
    WHERE NOT coalesce((SELECT history_deleted_at FROM dag WHERE dag_id = subscription.dag_id) >= event.received_at, false)
),
found AS (
    SELECT
        due.id, due.dag_id,
        CASE
            WHEN consumed.dag_run_id IS NULL THEN
                CASE WHEN discarded.reason IS NOT NULL THEN 'discarded' WHEN queue.dataset_event_id IS NOT NULL THEN 'pending' END
            WHEN EXISTS (
                SELECT FROM dagrun_dataset_event AS other
                WHERE other.dag_run_id = consumed.dag_run_id AND other.dataset_event_id <> due.id
            ) THEN 'consumed with others'
            ELSE 'consumed alone'
        END AS outcome,
        CASE WHEN consumed.dag_run_id IS NULL THEN discarded.reason END AS reason
    FROM due
    LEFT JOIN dataset_dag_run_queue AS queue
        ON (queue.target_dag_id, queue.dataset_id, queue.dataset_event_id) = (due.dag_id, due.dataset_id, due.id)
    LEFT JOIN dagrun_dataset_event AS consumed ON (consumed.dag_id, consumed.dataset_event_id) = (due.dag_id, due.id)
    LEFT JOIN discarded_dataset_event AS discarded ON (discarded.dag_id, discarded.dataset_event_id) = (due.dag_id, due.id)
)
SELECT outcome, reason, CASE WHEN outcome IS NULL THEN dag_id END AS dag_id, CASE WHEN outcome IS NULL THEN id END AS id, count(*)
FROM found
GROUP BY 1, 2, 3, 4
ORDER BY 3, 4

-- name: check_outcomes
-- The problems of the next rows of the table of outcomes $1, and the last row, with or without a problem.
-- If the ledger has dropped the event, only the DAG and the run are checked.
WITH page AS MATERIALIZED (
    SELECT *, lead(true) OVER (ORDER BY dag_id, dataset_id, dataset_event_id) IS NULL AS is_last
    FROM (
        (
            SELECT target_dag_id AS dag_id, dataset_id, dataset_event_id, NULL::bigint AS dag_run_id, NULL AS reason
            FROM dataset_dag_run_queue
            WHERE $1 = 'pending' AND (target_dag_id, dataset_id, dataset_event_id) > ($2, $3::bigint, $4::bigint)
            ORDER BY target_dag_id, dataset_id, dataset_event_id
            LIMIT $5
        )
        UNION ALL
        (
            SELECT dag_id, 0, dataset_event_id, dag_run_id, NULL
            FROM dagrun_dataset_event
            WHERE $1 = 'consumed' AND (dag_id, dataset_event_id) > ($2, $4::bigint)
            ORDER BY dag_id, dataset_event_id
            LIMIT $5
        )
        UNION ALL
        (
            SELECT dag_id, 0, dataset_event_id, NULL, reason
            FROM discarded_dataset_event
            WHERE $1 = 'discarded' AND (dag_id, dataset_event_id) > ($2, $4::bigint)
            ORDER BY dag_id, dataset_event_id
            LIMIT $5
        )
    ) AS row
),
found AS (
    SELECT
        page.*,
        CASE $1
            WHEN 'consumed' THEN 'consumed by run ' || coalesce(run.run_id, page.dag_run_id::text)
            WHEN 'discarded' THEN 'discarded: ' || page.reason
            ELSE $1
        END AS outcome,
        CASE
            WHEN discarded.reason IS NOT NULL THEN 'discarded: ' || discarded.reason
            WHEN queue.dataset_event_id IS NOT NULL THEN 'pending'
            WHEN run.dag_id <> page.dag_id THEN run.dag_id
        END AS second,
        CASE
            WHEN event.id IS NULL AND (
                $1 = 'pending' OR EXISTS (SELECT FROM dataset_event AS older WHERE older.id < page.dataset_event_id)
            ) THEN 'no_event'
            WHEN dag.dag_id IS NULL THEN 'no_dag'
            WHEN page.dag_run_id IS NOT NULL AND run.id IS NULL
                AND NOT coalesce(event.received_at <= dag.history_deleted_at, dag.history_deleted_at IS NOT NULL)
                THEN 'no_run'
            WHEN page.reason = '' THEN 'no_reason'
            WHEN discarded.reason IS NOT NULL OR queue.dataset_event_id IS NOT NULL THEN 'doubled'
            WHEN run.dag_id <> page.dag_id THEN 'other_run'
            WHEN $1 = 'pending' AND event.dataset_id <> page.dataset_id THEN 'other_dataset'
            WHEN event.arrival_id IS NOT NULL AND NOT EXISTS (
                SELECT FROM subscriptions_owed(event.dataset_id, event.arrival_id, event.occurred_at) AS subscription
                WHERE subscription.dag_id = page.dag_id
            ) THEN 'not_subscribed'
        END AS problem
    FROM page
    LEFT JOIN dag ON dag.dag_id = page.dag_id
    LEFT JOIN dag_run AS run ON run.id = page.dag_run_id
    LEFT JOIN dataset_event AS event ON event.id = page.dataset_event_id
    LEFT JOIN dataset_dag_run_queue AS queue
        ON (queue.target_dag_id, queue.dataset_id, queue.dataset_event_id) = (page.dag_id, event.dataset_id, event.id)
        AND $1 <> 'pending'
    LEFT JOIN discarded_dataset_event AS discarded
        ON (discarded.dag_id, discarded.dataset_event_id) = (page.dag_id, page.dataset_event_id)
        AND $1 = 'consumed'
)
SELECT dag_id, dataset_id, dataset_event_id, problem, outcome, second
FROM found
WHERE problem IS NOT NULL OR is_last
ORDER BY dag_id, dataset_id, dataset_event_id

-- name: name_events
SELECT event.id, dataset.uri, event.source, event.event_id
FROM dataset_event AS event
LEFT JOIN dataset ON dataset.id = event.dataset_id
WHERE event.id = ANY ($1::bigint[])
