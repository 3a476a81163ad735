-- name: longest_waiting
-- Up to $3 tasks that only missing slots block, that have waited since before $2, oldest first; and how many more tasks
-- the run and the limits of each admit. The pool has $4 slots. They are among the 1,000 tasks that have waited longest; a last
-- row of nulls says that more may wait, if fewer than $3 are found. With $5 they are among the first ones of each run and rank
-- instead: what a run holds back costs one step then.
WITH RECURSIVE full_in_run AS MATERIALIZED (
    SELECT dag_run_id, task_id FROM limited_task GROUP BY dag_run_id, task_id HAVING count(*) >= min(per_run)
),
full_in_dag AS MATERIALIZED (
    SELECT run.dag_id, task.task_id
    FROM limited_task AS task JOIN dag_run AS run ON run.id = task.dag_run_id
    GROUP BY run.dag_id, task.task_id
    HAVING count(*) >= min(task.per_dag)
),
oldest AS MATERIALIZED (
    SELECT dag_run_id, task_index, scheduled_at, task_id, try_number, per_dag, per_run
    FROM task_instance
    WHERE NOT $5 AND pool = $1 AND state = 'scheduled' AND scheduled_at < $2 AND pool_slots <= $4
    ORDER BY scheduled_at
    LIMIT 1000
),
walk (rank, order_at, dag_run_id) AS (
    SELECT * FROM (
        SELECT rank, order_at, dag_run_id
        FROM task_instance
        WHERE pool = $1 AND state = 'scheduled'
        ORDER BY rank, order_at, dag_run_id, task_index
        LIMIT 1
    ) AS first
    WHERE $5::boolean
    UNION ALL
    SELECT next.*
    FROM walk
    CROSS JOIN LATERAL (
        SELECT task.rank, task.order_at, task.dag_run_id
        FROM task_instance AS task
        WHERE (task.rank, task.order_at, task.dag_run_id) > (walk.rank, walk.order_at, walk.dag_run_id)
          AND task.pool = $1 AND task.state = 'scheduled'
        ORDER BY task.rank, task.order_at, task.dag_run_id, task.task_index
        LIMIT 1
    ) AS next
)
(
    SELECT
        head.dag_run_id, head.task_index,
        CASE WHEN head.per_dag IS NOT NULL OR run.backfill_id IS NOT NULL THEN run.dag_id END AS limited_in,
        run.dag_id, head.task_id,
        run.max_active_tasks - run.active_tasks AS left_of_run, head.per_run - in_run.active AS left_in_run,
        head.per_dag - in_dag.active AS left_in_dag, run.backfill_id,
        CASE WHEN run.backfill_id IS NOT NULL THEN backfill_capacity(run.backfill_id, $1) END AS left_of_backfill
    FROM (
        SELECT * FROM oldest
        UNION ALL
        SELECT task.* FROM walk
        CROSS JOIN LATERAL (
            SELECT run.dag_id, least(
                run.max_active_tasks - run.active_tasks,
                CASE WHEN run.backfill_id IS NOT NULL THEN backfill_capacity(run.backfill_id, $1) END
            ) AS capacity
            FROM dag_run AS run JOIN dag USING (dag_id)
            WHERE run.id = walk.dag_run_id AND run.state = 'running' AND NOT dag.is_stopped
            LIMIT 1
        ) AS run
        CROSS JOIN LATERAL (
            SELECT dag_run_id, task_index, scheduled_at, task_id, try_number, per_dag, per_run
            FROM task_instance AS task
            WHERE task.pool = $1 AND task.state = 'scheduled' AND task.scheduled_at < $2 AND task.pool_slots <= $4
              AND (task.rank, task.order_at, task.dag_run_id) = (walk.rank, walk.order_at, walk.dag_run_id)
              AND (task.per_run IS NULL OR (task.dag_run_id, task.task_id) NOT IN (SELECT dag_run_id, task_id FROM full_in_run))
              AND (task.per_dag IS NULL OR (run.dag_id, task.task_id) NOT IN (SELECT dag_id, task_id FROM full_in_dag))
            ORDER BY task.task_index
            LIMIT greatest(least(run.capacity, $3), 0)
        ) AS task
    ) AS head
    CROSS JOIN LATERAL (SELECT * FROM dag_run WHERE dag_run.id = head.dag_run_id LIMIT 1) AS run
    JOIN dag USING (dag_id)
    CROSS JOIN LATERAL (
        SELECT count(*) AS active FROM limited_task AS task
        WHERE head.per_run IS NOT NULL
          AND task.task_id = head.task_id AND task.dag_run_id = head.dag_run_id
    ) AS in_run
    CROSS JOIN LATERAL (
        SELECT count(*) AS active FROM limited_task AS task JOIN dag_run AS other ON other.id = task.dag_run_id
        WHERE head.per_dag IS NOT NULL
          AND task.task_id = head.task_id AND other.dag_id = run.dag_id
    ) AS in_dag
    WHERE run.state = 'running' AND run.active_tasks < run.max_active_tasks AND NOT dag.is_stopped
      AND (
          head.try_number = 0 OR NOT EXISTS (
              SELECT FROM open_attempt AS attempt
              WHERE attempt.dag_run_id = head.dag_run_id AND attempt.task_index = head.task_index
              OFFSET 0  -- else Postgres may read all open attempts
          )
      )
      AND (head.per_run IS NULL OR head.per_run > in_run.active)
      AND (head.per_dag IS NULL OR head.per_dag > in_dag.active)
      AND (run.backfill_id IS NULL OR coalesce(backfill_capacity(run.backfill_id, $1), 1) > 0)
    ORDER BY head.scheduled_at
    LIMIT $3
)
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL WHERE 1000 = (SELECT count(*) FROM oldest)
LIMIT $3
