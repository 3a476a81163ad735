-- name: queue
-- The first tasks that wait for slots of a pool, in the order in which they get them.
SELECT
    head.dag_run_id, head.task_index, run.dag_id, run.run_id, head.task_id,
    map_index(head.task_index) AS map_index, head.pool_slots, in_calendar(head.scheduled_at) AS since
FROM (
    SELECT * FROM task_instance WHERE pool = $1 AND state = 'scheduled'
    ORDER BY rank, order_at, dag_run_id, task_index LIMIT $2
) AS head
JOIN dag_run AS run ON run.id = head.dag_run_id
ORDER BY head.rank, head.order_at, head.dag_run_id, head.task_index

-- name: backends
-- The attempts that have not ended, by backend and host; an intent has no host yet. Up to $1 of each state are counted.
SELECT
    backend, host,
    count(*) FILTER (WHERE attempt.state = 'intent') AS intents,
    count(*) FILTER (WHERE attempt.state = 'submitting') AS submitting,
    count(*) FILTER (WHERE attempt.state = 'accepted') AS accepted,
    min(in_calendar(created_at)) FILTER (WHERE attempt.state <> 'accepted') AS waits_since
FROM unnest(ARRAY['intent', 'submitting', 'accepted']::submission_state[]) AS counted (state)
CROSS JOIN LATERAL (
    SELECT backend, host, state, created_at FROM open_attempt WHERE state = counted.state ORDER BY backend LIMIT $1
) AS attempt
GROUP BY backend, host
ORDER BY backend, host
