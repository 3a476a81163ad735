-- name: failed
-- The newest failed runs, unless a later run of the DAG has succeeded since, or the reason begins with a text of $3. Of the
-- later runs and successes only the newest by their order are looked at: the runs of a backfill of old dates have thousands after
-- them. The index alone has the state.
SELECT run.id, run.dag_id, run.run_id, run.end_date, run.order_at, last.reason
FROM (
    SELECT id, dag_id, run_id, end_date, order_at
    FROM dag_run WHERE state = 'failed' AND end_date > now() - make_interval(secs => $1)
    ORDER BY end_date DESC LIMIT 500
) AS run
LEFT JOIN LATERAL (
    SELECT reason FROM run_state_change WHERE dag_run_id = run.id ORDER BY seq DESC LIMIT 1
) AS last ON true
WHERE NOT EXISTS (SELECT FROM unnest($3::text[]) AS by_user (words) WHERE starts_with(last.reason, words)) AND NOT EXISTS (
    SELECT
    FROM (
        SELECT id
        FROM (
            SELECT id, state, order_at FROM dag_run AS later
            WHERE later.dag_id = run.dag_id AND later.order_at IS NOT NULL
              AND (later.order_at, later.id) > (run.order_at, run.id)
            ORDER BY later.order_at DESC, later.id DESC
            LIMIT 1000
        ) AS later
        WHERE state = 'success'
        ORDER BY order_at DESC, id DESC
        LIMIT 100
    ) AS success
    JOIN dag_run AS ended ON ended.id = success.id
    WHERE ended.end_date > run.end_date
)
ORDER BY run.end_date DESC
LIMIT $2

-- name: backfills
-- The backfills with failed dates that are at work, or that ended within $1 seconds and did not succeed.
SELECT id FROM backfill WHERE backfill_is_active(state) AND failed > 0
UNION
SELECT id
FROM backfill
WHERE (state = 'failed' OR (state = 'cancelled' AND failed > 0))
  AND NOT deleted AND run_end_date > now() - make_interval(secs => $1)
ORDER BY id DESC
LIMIT $2

-- name: at_work
-- The runs with tasks that occupy slots, the longest first.
SELECT run.dag_id, run.run_id, run.state, run.start_date, run.order_at, run.unfinished, work.tasks, work.first
FROM (
    SELECT dag_run_id, count(*) AS tasks, min(task_id) AS first
    FROM (SELECT dag_run_id, task_id FROM occupying_task LIMIT 2000) AS occupying
    GROUP BY dag_run_id
) AS work
JOIN dag_run AS run ON run.id = work.dag_run_id
ORDER BY run.start_date, run.id
LIMIT $1

-- name: waiting
-- The runs with tasks that have waited for slots for $1 seconds, the longest first, each with the first of these tasks: the runs
-- of all DAGs, or of the DAGs $5. Of a pool the $2 oldest tasks are read, of all pools $3; of each of the DAGs the tasks of $6
-- runs, and of them all $7 tasks. Tasks of backfills, and of held and paused DAGs, wait by intention.
SELECT
    head.dag_run_id, head.task_index, run.dag_id, run.run_id, run.order_at, head.task_id, map_index(head.task_index) AS map_index,
    head.pool, in_calendar(head.scheduled_at) AS since, head.tasks
FROM (
    SELECT DISTINCT ON (dag_run_id) oldest.*, count(*) OVER (PARTITION BY dag_run_id) AS tasks
    FROM (
        (
            SELECT task.*
            FROM pool
            CROSS JOIN LATERAL (
                SELECT dag_run_id, task_index, task_id, pool, scheduled_at FROM task_instance
                WHERE pool = pool.name AND state = 'scheduled' AND scheduled_at < now() - make_interval(secs => $1)
                ORDER BY scheduled_at LIMIT $2
            ) AS task
            WHERE $5::text[] IS NULL
            ORDER BY task.scheduled_at LIMIT $3
        )
        UNION ALL
        SELECT dag_run_id, task_index, task_id, pool, scheduled_at
        FROM (
            SELECT task.*
            FROM unnest($5::text[]) AS wanted (dag_id)
            CROSS JOIN LATERAL (
                SELECT id FROM dag_run
                WHERE dag_id = wanted.dag_id AND state = 'running' AND backfill_id IS NULL
                ORDER BY order_at LIMIT $6
            ) AS active
            CROSS JOIN LATERAL (
                SELECT dag_run_id, task_index, task_id, pool, scheduled_at, state FROM task_instance
                WHERE dag_run_id = active.id LIMIT $7
            ) AS task
            LIMIT $7
        ) AS task
        WHERE state = 'scheduled' AND scheduled_at < now() - make_interval(secs => $1)
    ) AS oldest
    ORDER BY dag_run_id, scheduled_at, task_index
) AS head
CROSS JOIN LATERAL (
    SELECT id, dag_id, run_id, order_at FROM dag_run WHERE id = head.dag_run_id AND backfill_id IS NULL LIMIT 1
) AS run
JOIN dag ON dag.dag_id = run.dag_id AND dag.held_since IS NULL AND NOT dag.is_paused
ORDER BY head.scheduled_at, head.dag_run_id
LIMIT $4

-- name: expected
-- The datasets without a pending event of DAGs that have had one of another dataset for $1 seconds, the longest wait first.
-- The first $2 DAGs with pending events are found by the index, each from the one before; $3 of them are read, and $4 datasets
-- of each. Each row says whether there are more DAGs; one without a dataset says it if there is no dataset.
-- Held and paused DAGs wait by intention.
WITH RECURSIVE pending AS (
    (
        SELECT target_dag_id, created_at FROM dataset_dag_run_queue WHERE target_dag_id > ''
        ORDER BY target_dag_id, dataset_event_id LIMIT 1
    )
    UNION ALL
    SELECT following.target_dag_id, following.created_at
    FROM pending
    CROSS JOIN LATERAL (
        SELECT target_dag_id, created_at FROM dataset_dag_run_queue WHERE target_dag_id > pending.target_dag_id
        ORDER BY target_dag_id, dataset_event_id LIMIT 1
    ) AS following
),
first AS MATERIALIZED (
    SELECT target_dag_id, created_at, created_at < now() - make_interval(secs => $1) AS waits FROM pending LIMIT $2
),
head AS (
    SELECT dag.dag_id, first.created_at AS since
    FROM first
    CROSS JOIN LATERAL (
        SELECT dag_id FROM dag WHERE dag_id = first.target_dag_id AND held_since IS NULL AND NOT is_paused LIMIT 1
    ) AS dag
    WHERE first.waits
    ORDER BY first.created_at LIMIT $3
)
SELECT read.has_more, missing.uri, head.dag_id, in_calendar(head.since) AS since
FROM (SELECT count(*) >= $2 OR count(*) FILTER (WHERE waits) > $3 AS has_more FROM first) AS read
LEFT JOIN (
    head
    CROSS JOIN LATERAL (
        SELECT dataset.uri
        FROM dag_schedule_dataset_reference AS reference
        CROSS JOIN LATERAL (SELECT uri FROM dataset WHERE id = reference.dataset_id LIMIT 1) AS dataset
        WHERE reference.dag_id = head.dag_id AND NOT EXISTS (
            SELECT FROM dataset_dag_run_queue AS queue
            WHERE queue.target_dag_id = reference.dag_id AND queue.dataset_id = reference.dataset_id
        )
        LIMIT $4
    ) AS missing
) ON true
ORDER BY head.since, head.dag_id, missing.uri

-- name: counts
-- Each count ends at $1: counting a backlog must not take long.
SELECT
    (SELECT count(*) FROM (SELECT FROM occupying_task LIMIT $1) AS active) AS active,
    (SELECT count(*) FROM (SELECT FROM task_instance WHERE state = 'scheduled' LIMIT $1) AS waiting) AS waiting

-- name: held
SELECT dag_id, hold_reason, in_calendar(held_since) AS held_since FROM dag WHERE held_since IS NOT NULL ORDER BY dag_id LIMIT $1

-- name: due
-- The DAGs that the clock visits next. Of each shard, only as many are read as are shown.
SELECT due.dag_id, in_calendar(due.due_at) AS due_at
FROM generate_series(0, 15) AS shard (number)
CROSS JOIN LATERAL (
    SELECT dag_id, due_at FROM dag
    WHERE clock_shard = shard.number AND due_at <= now() + make_interval(secs => $1)
      AND held_since IS NULL AND NOT is_paused AND NOT is_stale
    ORDER BY due_at LIMIT $2
) AS due
ORDER BY due.due_at, due.dag_id
LIMIT $2
