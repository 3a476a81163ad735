-- name: look_at_pool
-- What seems to be free; nothing is locked.
SELECT
    slots, admitted,
    (SELECT coalesce(sum(pool_slots), 0) FROM task_instance WHERE pool = pool.name AND state IN ('queued', 'running'))
FROM pool
WHERE name = $1

-- name: lock_pools
SELECT name, slots, admitted FROM pool WHERE name = ANY ($1::text[]) ORDER BY name FOR UPDATE

-- name: occupied
SELECT coalesce(sum(pool_slots), 0) FROM task_instance WHERE pool = $1 AND state IN ('queued', 'running')

-- name: active_everywhere
SELECT count(*) FROM task_instance WHERE state IN ('queued', 'running')

-- name: count_admitted
UPDATE pool SET admitted = admitted + change.tasks
FROM unnest($1::text[], $2::integer[]) AS change (name, tasks)
WHERE pool.name = change.name

-- name: pools_in_demand
SELECT pool.name
FROM pool
CROSS JOIN LATERAL (SELECT FROM task_instance AS task WHERE task.pool = pool.name AND task.state = 'scheduled' LIMIT 1) AS waiting
ORDER BY pool.name
