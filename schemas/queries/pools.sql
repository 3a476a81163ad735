-- name: read_pool
-- Nothing is locked.
SELECT
    slots, admitted,
    (SELECT coalesce(sum(pool_slots), 0) FROM occupying_task WHERE pool = pool.name),
    (
        SELECT in_calendar(scheduled_at) FROM task_instance
        WHERE pool = pool.name AND state = 'scheduled' ORDER BY scheduled_at LIMIT 1
    )
FROM pool
WHERE name = $1

-- name: lock_pools
SELECT name, slots, admitted FROM pool WHERE name = ANY ($1::text[]) ORDER BY name FOR UPDATE

-- name: occupied
SELECT coalesce(sum(pool_slots), 0) FROM occupying_task WHERE pool = $1

-- name: active_everywhere
SELECT count(*) FROM occupying_task

-- name: count_admitted
UPDATE pool SET admitted = admitted + change.tasks
FROM unnest($1::text[], $2::integer[]) AS change (name, tasks)
WHERE pool.name = change.name

-- name: pools_in_demand
-- The pool with the longest waiting task comes first.
SELECT pool.name
FROM pool
CROSS JOIN LATERAL (
    SELECT task.scheduled_at
    FROM task_instance AS task
    WHERE task.pool = pool.name AND task.state = 'scheduled'
    ORDER BY task.scheduled_at
    LIMIT 1
) AS waiting
ORDER BY waiting.scheduled_at, pool.name

-- name: list_pools
-- The slots of running tasks, of queued tasks, and of tasks that wait for slots; of the latter at most $2 are read.
SELECT
    pool.name, pool.slots, active.running, active.queued, waiting.slots AS waiting, waiting.tasks AS waiting_tasks,
    (
        SELECT in_calendar(scheduled_at) FROM task_instance
        WHERE pool = pool.name AND state = 'scheduled' ORDER BY scheduled_at LIMIT 1
    ) AS waits_since
FROM pool
CROSS JOIN LATERAL (
    SELECT
        coalesce(sum(task.pool_slots) FILTER (WHERE task.state = 'running'), 0) AS running,
        coalesce(sum(task.pool_slots) FILTER (WHERE task.state = 'queued'), 0) AS queued
    FROM occupying_task AS task
    WHERE task.pool = pool.name
) AS active
CROSS JOIN LATERAL (
    SELECT coalesce(sum(task.pool_slots), 0) AS slots, count(*) AS tasks
    FROM (SELECT pool_slots FROM task_instance WHERE pool = pool.name AND state = 'scheduled' LIMIT $2) AS task
) AS waiting
WHERE ($1::text IS NULL OR pool.name = $1) AND ($3::text IS NULL OR pool.name > $3)
ORDER BY pool.name
LIMIT $4

-- name: missing_pools
-- The names of missing pools, with the number of tasks that wait for each, counted up to $1. The recursion steps from pool to
-- pool: of the tasks that wait for a pool that exists, one is read.
WITH RECURSIVE queue (pool) AS (
    SELECT * FROM (SELECT pool FROM task_instance WHERE state = 'scheduled' ORDER BY pool LIMIT 1) AS first
    UNION ALL
    SELECT next.pool
    FROM queue
    CROSS JOIN LATERAL (
        SELECT task.pool
        FROM task_instance AS task
        WHERE task.pool > queue.pool AND task.state = 'scheduled'
        ORDER BY task.pool
        LIMIT 1
    ) AS next
)
SELECT queue.pool, waiting.tasks
FROM queue
CROSS JOIN LATERAL (
    SELECT count(*) AS tasks
    FROM (SELECT FROM task_instance AS task WHERE task.pool = queue.pool AND task.state = 'scheduled' LIMIT $1) AS counted
) AS waiting
WHERE NOT EXISTS (SELECT FROM pool WHERE pool.name = queue.pool)
ORDER BY queue.pool

-- name: narrow_pools
-- The pools with fewer slots in all than tasks that wait for them need, with the number of these tasks and the most slots that
-- one needs, among the $1 tasks that wait longest for each pool.
SELECT pool.name, pool.slots, waiting.tasks, waiting.wanted
FROM pool
CROSS JOIN LATERAL (
    SELECT count(*) AS tasks, max(oldest.pool_slots) AS wanted
    FROM (
        SELECT pool_slots FROM task_instance
        WHERE pool = pool.name AND state = 'scheduled' ORDER BY scheduled_at LIMIT $1
    ) AS oldest
    WHERE oldest.pool_slots > pool.slots
) AS waiting
WHERE pool.slots >= 0 AND waiting.tasks > 0
ORDER BY pool.name

-- name: lock_slots
SELECT slots FROM pool WHERE name = $1 FOR UPDATE

-- name: set_slots
INSERT INTO pool (name, slots) VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET slots = excluded.slots WHERE NOT $3::boolean
RETURNING slots

-- name: tasks_in_pool
-- Active tasks, tasks that wait for slots, and tasks up for retry: each count uses an index of its own.
SELECT
    (SELECT count(*) FROM occupying_task AS task WHERE task.pool = $1)
    + (SELECT count(*) FROM task_instance AS task WHERE task.pool = $1 AND task.state = 'scheduled')
    + (SELECT count(*) FROM task_instance AS task WHERE task.pool = $1 AND task.state = 'up_for_retry')

-- name: dags_with_pool
-- DAGs whose current version has tasks in the pool.
SELECT dag.dag_id
FROM dag
JOIN dag_version AS version ON version.id = dag.version_id
WHERE NOT dag.is_stale AND version.spec -> 'tasks' @> jsonb_build_array(jsonb_build_object('pool', $1::text))
ORDER BY dag.dag_id

-- name: backfills_with_pool
-- Unfinished ones: their runs may still get tasks.
SELECT id FROM backfill WHERE pool = $1 AND backfill_is_active(state) ORDER BY id

-- name: delete_pool
DELETE FROM pool WHERE name = $1
