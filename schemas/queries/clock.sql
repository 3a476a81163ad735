-- name: next_due
-- When the first thing of each kind is due in these shards: a DAG, a retry, the end of a run's time, of an attempt's, a deadline.
SELECT
    (
        SELECT min(first.at) FROM unnest($1::smallint[]) AS shard (number) CROSS JOIN LATERAL (
            SELECT due_at AS at FROM dag WHERE clock_shard = shard.number AND due_at IS NOT NULL ORDER BY due_at LIMIT 1
        ) AS first
    ) AS dag,
    (
        SELECT min(first.at) FROM unnest($1::smallint[]) AS shard (number) CROSS JOIN LATERAL (
            SELECT next_try_at AS at FROM task_instance
            WHERE dag_run_id % 16 = shard.number AND state = 'up_for_retry'
            ORDER BY next_try_at LIMIT 1
        ) AS first
    ) AS retry,
    (
        SELECT min(first.at) FROM unnest($1::smallint[]) AS shard (number) CROSS JOIN LATERAL (
            SELECT times_out_at AS at FROM dag_run
            WHERE id % 16 = shard.number AND state = 'running' AND times_out_at IS NOT NULL
            ORDER BY times_out_at LIMIT 1
        ) AS first
    ) AS run,
    (
        SELECT min(first.at) FROM unnest($1::smallint[]) AS shard (number) CROSS JOIN LATERAL (
            SELECT times_out_at AS at FROM submission
            WHERE dag_run_id % 16 = shard.number AND state = 'accepted' AND desired_state = 'run' AND times_out_at IS NOT NULL
            ORDER BY times_out_at LIMIT 1
        ) AS first
    ) AS attempt,
    (
        SELECT min(first.at) FROM unnest($1::smallint[]) AS shard (number) CROSS JOIN LATERAL (
            SELECT due_at AS at FROM deadline
            WHERE dag_run_id % 16 = shard.number AND met_at IS NULL AND missed_at IS NULL
            ORDER BY due_at LIMIT 1
        ) AS first
    ) AS deadline

-- name: due_dags
SELECT dag.dag_id
FROM unnest($1::smallint[]) AS shard (number)
CROSS JOIN LATERAL (
    SELECT dag_id, due_at FROM dag WHERE clock_shard = shard.number AND due_at <= $2 ORDER BY due_at LIMIT $3
) AS dag
ORDER BY dag.due_at
LIMIT $3

-- name: due_retries
SELECT task.dag_run_id, task.task_index
FROM unnest($1::smallint[]) AS shard (number)
CROSS JOIN LATERAL (
    SELECT dag_run_id, task_index, next_try_at
    FROM task_instance
    WHERE dag_run_id % 16 = shard.number AND state = 'up_for_retry' AND next_try_at <= $2
    ORDER BY next_try_at
    LIMIT $3
) AS task
ORDER BY task.next_try_at
LIMIT $3

-- name: late_runs
SELECT run.id
FROM unnest($1::smallint[]) AS shard (number)
CROSS JOIN LATERAL (
    SELECT id FROM dag_run
    WHERE id % 16 = shard.number AND state = 'running' AND times_out_at <= $2
    ORDER BY times_out_at LIMIT $3
) AS run
LIMIT $3

-- name: late_attempts
SELECT attempt.submission_id
FROM unnest($1::smallint[]) AS shard (number)
CROSS JOIN LATERAL (
    SELECT submission_id FROM submission
    WHERE dag_run_id % 16 = shard.number AND state = 'accepted' AND desired_state = 'run' AND times_out_at <= $2
    ORDER BY times_out_at LIMIT $3
) AS attempt
LIMIT $3

-- name: passed_deadlines
SELECT deadline.id
FROM unnest($1::smallint[]) AS shard (number)
CROSS JOIN LATERAL (
    SELECT id, due_at FROM deadline
    WHERE dag_run_id % 16 = shard.number AND met_at IS NULL AND missed_at IS NULL AND due_at <= $2
    ORDER BY due_at LIMIT $3
) AS deadline
ORDER BY deadline.due_at
LIMIT $3
