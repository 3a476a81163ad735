-- name: run
-- All statements: the rows due by $2 in these shards, up to $3, the most overdue first.
SELECT in_calendar(due.at) AS at, due.id
FROM unnest($1::smallint[]) AS shard (number)
CROSS JOIN LATERAL (
    SELECT times_out_at AS at, id FROM dag_run
    WHERE id % 16 = shard.number AND state = 'running' AND times_out_at <= $2
      AND NOT {held dag_run.id}
    ORDER BY times_out_at LIMIT $3
) AS due
ORDER BY due.at LIMIT $3

-- name: attempt
SELECT in_calendar(due.at) AS at, due.submission_id
FROM unnest($1::smallint[]) AS shard (number)
CROSS JOIN LATERAL (
    SELECT times_out_at AS at, submission_id FROM submission
    WHERE dag_run_id % 16 = shard.number AND state = 'accepted' AND desired_state = 'run' AND times_out_at <= $2
      AND NOT {held dag_run_id}
    ORDER BY times_out_at LIMIT $3
) AS due
ORDER BY due.at LIMIT $3

-- name: dag
SELECT in_calendar(due.at) AS at, due.dag_id
FROM unnest($1::smallint[]) AS shard (number)
CROSS JOIN LATERAL (
    SELECT due_at AS at, dag_id FROM dag
    WHERE clock_shard = shard.number AND due_at <= $2 AND held_since IS NULL
    ORDER BY due_at LIMIT $3
) AS due
ORDER BY due.at LIMIT $3

-- name: end
SELECT in_calendar(due.at) AS at, due.id
FROM unnest($1::smallint[]) AS shard (number)
CROSS JOIN LATERAL (
    SELECT at, id FROM deferred_end
    WHERE dag_run_id % 16 = shard.number AND at <= $2
      AND NOT {held dag_run_id}
    ORDER BY at LIMIT $3
) AS due
ORDER BY due.at LIMIT $3

-- name: backfill
-- OFFSET: Postgres would rather read all held DAGs.
SELECT in_calendar(due.at) AS at, due.id
FROM unnest($1::smallint[]) AS shard (number)
CROSS JOIN LATERAL (
    SELECT due_at AS at, id FROM backfill
    WHERE id % 16 = shard.number AND due_at <= $2 AND backfill_is_active(state)
      AND (state = 'cancelling' OR NOT EXISTS (
          SELECT FROM dag WHERE dag.dag_id = backfill.dag_id AND held_since IS NOT NULL OFFSET 0
      ))
    ORDER BY due_at LIMIT $3
) AS due
ORDER BY due.at LIMIT $3

-- name: retry
SELECT in_calendar(due.at) AS at, due.dag_run_id, due.task_index
FROM unnest($1::smallint[]) AS shard (number)
CROSS JOIN LATERAL (
    SELECT next_try_at AS at, dag_run_id, task_index FROM task_instance
    WHERE dag_run_id % 16 = shard.number AND state = 'up_for_retry' AND next_try_at <= $2
      AND NOT {held dag_run_id}
    ORDER BY next_try_at LIMIT $3
) AS due
ORDER BY due.at LIMIT $3

-- name: deadline
SELECT in_calendar(due.at) AS at, due.id
FROM unnest($1::smallint[]) AS shard (number)
CROSS JOIN LATERAL (
    SELECT due_at AS at, id FROM deadline
    WHERE dag_run_id % 16 = shard.number AND met_at IS NULL AND missed_at IS NULL AND due_at <= $2
      AND NOT {held dag_run_id}
    ORDER BY due_at LIMIT $3
) AS due
ORDER BY due.at LIMIT $3

-- name: deferred
SELECT in_calendar(due.at) AS at, due.dag_id
FROM unnest($1::smallint[]) AS shard (number)
CROSS JOIN LATERAL (
    SELECT at, dag_id FROM deferred_dag
    WHERE clock_shard = shard.number AND at <= $2
    ORDER BY at LIMIT $3
) AS due
ORDER BY due.at LIMIT $3
