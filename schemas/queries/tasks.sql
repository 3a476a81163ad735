-- name: instances
SELECT
    task.dag_run_id, task.task_index AS index, task.state, task.try_number, task.max_tries, task.awaited, task.success,
    task.failed, task.skipped, task.upstream_failed, task.waits_for_past, task.next_try_at, task.elements
FROM unnest($1::bigint[], $2::integer[]) AS target (dag_run_id, task_index)
JOIN task_instance AS task USING (dag_run_id, task_index)

-- name: of_runs
SELECT
    dag_run_id, task_index AS index, state, try_number, max_tries, awaited, success, failed, skipped,
    upstream_failed, waits_for_past, next_try_at, elements
FROM task_instance
WHERE dag_run_id = ANY ($1::bigint[]) AND task_index >= 0
ORDER BY dag_run_id, task_index

-- name: without_elements
SELECT
    dag_run_id, task_index AS index, state, try_number, max_tries, awaited, success, failed, skipped,
    upstream_failed, waits_for_past, next_try_at, elements
FROM task_instance
WHERE dag_run_id = $1 AND is_task(task_index)

-- name: undone_elements
SELECT task_index
FROM task_instance
WHERE dag_run_id = $1 AND task_index BETWEEN $2 AND $3 AND state <> ALL ($4::task_state[])
ORDER BY task_index
LIMIT $5

-- name: first_runs
-- How many of these runs, in their order, have at most $2 instances together; at least one. It reads no more than twice as many.
WITH RECURSIVE taken (runs, instances) AS (
    SELECT 0, 0::bigint
    UNION ALL
    SELECT runs + 1, taken.instances + of_run.instances
    FROM taken
    CROSS JOIN LATERAL (
        SELECT count(*) AS instances
        FROM (SELECT FROM task_instance WHERE dag_run_id = ($1::bigint[])[taken.runs + 1] LIMIT $2::integer + 1) AS counted
    ) AS of_run
    WHERE runs < cardinality($1::bigint[]) AND (runs = 0 OR taken.instances + of_run.instances <= $2::integer)
)
SELECT max(runs) FROM taken

-- name: states
SELECT dag_run_id, task_id, state FROM task_instance WHERE dag_run_id = ANY ($1::bigint[]) AND is_task(task_index)

-- name: insert_tasks
INSERT INTO task_instance (
    dag_run_id, task_id, order_at, task_index, state, try_number, max_tries, awaited, success, failed, skipped, upstream_failed,
    waits_for_past, next_try_at, elements, reason, pool, pool_slots, rank, per_dag, per_run, scheduled_at, end_date
)
SELECT * FROM unnest(
    $1::bigint[], $2::text[], $3::timestamptz[], $4::integer[], $5::task_state[], $6::integer[], $7::integer[], $8::integer[],
    $9::integer[], $10::integer[], $11::integer[], $12::integer[], $13::boolean[], $14::timestamptz[], $15::integer[],
    $16::text[], $17::text[], $18::integer[], $19::integer[], $20::integer[], $21::integer[], $22::timestamptz[],
    $23::timestamptz[]
)
-- After a clear, the instances of a mapped task exist: their try numbers continue. Their run may have left a backfill meanwhile.
ON CONFLICT (dag_run_id, task_index) DO UPDATE
SET state = excluded.state,
    max_tries = task_instance.try_number + excluded.max_tries,
    reason = excluded.reason,
    pool = excluded.pool,
    pool_slots = excluded.pool_slots,
    rank = excluded.rank,
    per_dag = excluded.per_dag,
    per_run = excluded.per_run,
    scheduled_at = excluded.scheduled_at,
    start_date = NULL,
    end_date = excluded.end_date

-- name: update_tasks
-- The start is that of the last attempt, until the task waits for another one.
UPDATE task_instance AS task
SET state = change.state,
    try_number = change.try_number,
    max_tries = change.max_tries,
    awaited = change.awaited,
    success = change.success,
    failed = change.failed,
    skipped = change.skipped,
    upstream_failed = change.upstream_failed,
    waits_for_past = change.waits_for_past,
    next_try_at = change.next_try_at,
    elements = change.elements,
    reason = coalesce(change.reason, task.reason),
    scheduled_at = coalesce(change.scheduled_at, task.scheduled_at),
    start_date = CASE WHEN change.state NOT IN ('none', 'scheduled') THEN task.start_date END,
    end_date = change.end_date
FROM unnest(
    $1::bigint[], $2::integer[], $3::task_state[], $4::integer[], $5::integer[], $6::integer[], $7::integer[], $8::integer[],
    $9::integer[], $10::integer[], $11::boolean[], $12::timestamptz[], $13::integer[], $14::text[], $15::timestamptz[],
    $16::timestamptz[]
) AS change (
    dag_run_id, task_index, state, try_number, max_tries, awaited, success, failed, skipped, upstream_failed, waits_for_past,
    next_try_at, elements, reason, scheduled_at, end_date
)
WHERE task.dag_run_id = change.dag_run_id AND task.task_index = change.task_index

-- name: set_demand
UPDATE task_instance AS task
SET pool = change.pool,
    pool_slots = change.pool_slots,
    rank = change.rank,
    per_dag = change.per_dag,
    per_run = change.per_run
FROM unnest($1::bigint[], $2::integer[], $3::text[], $4::integer[], $5::integer[], $6::integer[], $7::integer[])
    AS change (dag_run_id, task_index, pool, pool_slots, rank, per_dag, per_run)
WHERE task.dag_run_id = change.dag_run_id AND task.task_index = change.task_index

-- name: move_tasks
UPDATE task_instance AS task
SET state = change.state,
    try_number = change.try_number,
    reason = NULL,
    start_date = coalesce(change.start_date, task.start_date)
FROM unnest($1::bigint[], $2::integer[], $3::task_state[], $4::integer[], $5::timestamptz[])
    AS change (dag_run_id, task_index, state, try_number, start_date)
WHERE task.dag_run_id = change.dag_run_id AND task.task_index = change.task_index

-- name: failures
-- The first failed tasks of these runs, each with its last attempt. A mapped task that has instances fails by them.
SELECT
    target.id, failed.task_id, failed.task_index, failed.try_number,
    coalesce(nullif(failed.reason, ''), attempt.reason, '') AS reason, attempt.host, attempt.log_path, attempt.log_tail
FROM unnest($1::bigint[]) AS target (id)
CROSS JOIN LATERAL (
    SELECT * FROM task_instance
    WHERE dag_run_id = target.id AND state = 'failed' AND task_index >= 0 AND elements = 0
    ORDER BY end_date, task_index
    LIMIT $2
) AS failed
LEFT JOIN submission AS attempt ON (attempt.dag_run_id, attempt.task_index, attempt.try_number)
    = (failed.dag_run_id, failed.task_index, failed.try_number)
ORDER BY target.id, failed.end_date, failed.task_index

-- name: store_results
-- As texts: asyncpg would encode a list as a dimension of the array.
INSERT INTO task_result (dag_run_id, task_index, value)
SELECT dag_run_id, task_index, value::jsonb
FROM unnest($1::bigint[], $2::integer[], $3::text[]) AS new (dag_run_id, task_index, value)
ON CONFLICT (dag_run_id, task_index) DO UPDATE SET value = excluded.value

-- name: drop_results
DELETE FROM task_result AS result
USING unnest($1::bigint[], $2::integer[]) AS target (dag_run_id, task_index)
WHERE (result.dag_run_id, result.task_index) = (target.dag_run_id, target.task_index)

-- name: results
-- OFFSET 0 prevents a scan of the whole table, which the planner prefers while its statistics show few rows.
SELECT result.dag_run_id, result.task_index, result.value
FROM unnest($1::bigint[], $2::integer[]) AS target (dag_run_id, task_index)
CROSS JOIN LATERAL (
    SELECT * FROM task_result WHERE (dag_run_id, task_index) = (target.dag_run_id, target.task_index) OFFSET 0
) AS result

-- name: lengths
-- The length of the list that each task returned; NULL for another result. The list of a mapped task has one entry per instance.
SELECT
    task.dag_run_id, task.task_index,
    CASE
        WHEN task.elements > 0 THEN task.elements
        WHEN jsonb_typeof(result.value) = 'array' THEN jsonb_array_length(result.value)
    END AS length
FROM unnest($1::bigint[], $2::integer[]) AS target (dag_run_id, task_index)
JOIN task_instance AS task USING (dag_run_id, task_index)
LEFT JOIN task_result AS result USING (dag_run_id, task_index)

-- name: sizes_of_elements
-- The bytes of JSON that the instances of each mapped task returned together.
SELECT target.dag_run_id, target.first, coalesce(sum(octet_length(result.value::text)), 0)::bigint AS bytes
FROM unnest($1::bigint[], $2::integer[], $3::integer[]) AS target (dag_run_id, first, last)
CROSS JOIN LATERAL (
    SELECT * FROM task_result WHERE dag_run_id = target.dag_run_id AND task_index BETWEEN target.first AND target.last OFFSET 0
) AS result
GROUP BY target.dag_run_id, target.first

-- name: results_of_elements
SELECT target.dag_run_id, result.task_index, result.value
FROM unnest($1::bigint[], $2::integer[], $3::integer[]) AS target (dag_run_id, first, last)
CROSS JOIN LATERAL (
    SELECT * FROM task_result WHERE dag_run_id = target.dag_run_id AND task_index BETWEEN target.first AND target.last OFFSET 0
) AS result

-- name: ready
-- The first $2 candidates in queue order, without locks: the handler checks each again under its run's lock. `is_open`: the task
-- seems admissible with $3 free slots. `limited_in` is the DAG of a task that has a limit per DAG, or is one of a backfill.
SELECT
    head.dag_run_id,
    head.task_index,
    head.pool_slots <= $3 AND run.state = 'running' AND run.active_tasks < run.max_active_tasks AND NOT dag.is_stopped
    AND (
        head.try_number = 0 OR NOT EXISTS (
            SELECT FROM open_attempt AS attempt
            WHERE attempt.dag_run_id = head.dag_run_id AND attempt.task_index = head.task_index
        )
    )
    AND (
        head.per_run IS NULL OR head.per_run > (
            SELECT count(*) FROM limited_task AS task
            WHERE task.task_id = head.task_id AND task.dag_run_id = head.dag_run_id
        )
    )
    AND (
        head.per_dag IS NULL OR head.per_dag > (
            SELECT count(*) FROM limited_task AS task JOIN dag_run AS other ON other.id = task.dag_run_id
            WHERE task.task_id = head.task_id AND other.dag_id = run.dag_id
        )
    )
    AND (
        run.backfill_id IS NULL
        OR (
            coalesce(backfill_capacity(run.backfill_id, $1), 1) > 0
            AND (head.pool_slots = 1 OR coalesce(head.pool_slots <= backfill_most_slots(run.backfill_id, $1), true))
        )
    ) AS is_open,
    CASE WHEN head.per_dag IS NOT NULL OR run.backfill_id IS NOT NULL THEN run.dag_id END AS limited_in
FROM (
    SELECT rank, order_at, dag_run_id, task_index, task_id, try_number, pool_slots, per_dag, per_run
    FROM task_instance
    WHERE pool = $1 AND state = 'scheduled'
    ORDER BY rank, order_at, dag_run_id, task_index
    LIMIT $2
) AS head
JOIN dag_run AS run ON run.id = head.dag_run_id
JOIN dag USING (dag_id)
ORDER BY head.rank, head.order_at, head.dag_run_id, head.task_index

-- name: ready_behind
-- As `ready`, when the first candidates are blocked. The recursion steps from run to run, so a blocked run costs one step,
-- however many of its tasks wait. It stops after $2 admissible tasks.
WITH RECURSIVE full_tasks AS MATERIALIZED (
    SELECT task.dag_run_id, run.dag_id, task.task_id, task.per_dag, task.per_run
    FROM limited_task AS task
    JOIN dag_run AS run ON run.id = task.dag_run_id
),
full_in_run AS MATERIALIZED (
    SELECT dag_run_id, task_id FROM full_tasks GROUP BY dag_run_id, task_id HAVING count(*) >= min(per_run)
),
full_in_dag AS MATERIALIZED (
    SELECT dag_id, task_id FROM full_tasks GROUP BY dag_id, task_id HAVING count(*) >= min(per_dag)
),
walk (rank, order_at, dag_run_id, tasks, found) AS (
    SELECT head.rank, head.order_at, head.dag_run_id, '{}'::integer[], 0
    FROM (
        SELECT rank, order_at, dag_run_id - 1 AS dag_run_id
        FROM task_instance
        WHERE pool = $1 AND state = 'scheduled'
        ORDER BY rank, order_at, task_instance.dag_run_id, task_index
        LIMIT 1
    ) AS head
    UNION ALL
    SELECT next.rank, next.order_at, next.dag_run_id, open.tasks, walk.found + cardinality(open.tasks)
    FROM walk
    CROSS JOIN LATERAL (
        SELECT task.rank, task.order_at, task.dag_run_id
        FROM task_instance AS task
        WHERE task.pool = $1 AND task.state = 'scheduled'
          AND (task.rank, task.order_at, task.dag_run_id) > (walk.rank, walk.order_at, walk.dag_run_id)
        ORDER BY task.rank, task.order_at, task.dag_run_id, task.task_index
        LIMIT 1
    ) AS next
    CROSS JOIN LATERAL (
        SELECT run.dag_id, CASE WHEN run.state = 'running' AND NOT dag.is_stopped THEN greatest(least(
            run.max_active_tasks - run.active_tasks,
            CASE WHEN run.backfill_id IS NOT NULL THEN backfill_capacity(run.backfill_id, $1) END
        ), 0) ELSE 0 END AS capacity,
        CASE WHEN run.backfill_id IS NOT NULL THEN backfill_most_slots(run.backfill_id, $1) END AS most_slots
        FROM dag_run AS run JOIN dag USING (dag_id) WHERE run.id = next.dag_run_id
    ) AS run
    CROSS JOIN LATERAL (
        SELECT CASE WHEN run.capacity = 0 THEN '{}' ELSE ARRAY(
            SELECT task.task_index
            FROM task_instance AS task
            WHERE task.pool = $1 AND task.state = 'scheduled' AND task.pool_slots <= least($3, run.most_slots)
              AND (task.rank, task.order_at, task.dag_run_id) = (next.rank, next.order_at, next.dag_run_id)
              AND (task.per_run IS NULL OR NOT EXISTS (
                  SELECT FROM full_in_run AS held WHERE held.dag_run_id = task.dag_run_id AND held.task_id = task.task_id
              ))
              AND (task.per_dag IS NULL OR NOT EXISTS (
                  SELECT FROM full_in_dag AS held WHERE held.dag_id = run.dag_id AND held.task_id = task.task_id
              ))
              AND (task.try_number = 0 OR NOT EXISTS (
                  SELECT FROM open_attempt AS attempt
                  WHERE attempt.dag_run_id = task.dag_run_id AND attempt.task_index = task.task_index
              ))
            ORDER BY task.task_index
            LIMIT least(run.capacity, $2)
        ) END AS tasks
    ) AS open
    WHERE walk.found < $2
)
SELECT walk.dag_run_id, task.index, true AS is_open
FROM walk
CROSS JOIN LATERAL unnest(walk.tasks) AS task (index)
ORDER BY walk.rank, walk.order_at, walk.dag_run_id, task.index
LIMIT $2

-- name: waiting
-- Read under the locks of their runs. With $3 only tasks of this pool: a task may have left it before its run was locked.
SELECT
    task.dag_run_id, task.task_index, run.dag_id, task.task_id, task.state, task.try_number, task.pool_slots, task.per_dag,
    task.per_run, dag.is_paused, dag.hold_reason, task.try_number > 0 AND EXISTS (
        SELECT FROM open_attempt AS attempt
        WHERE attempt.dag_run_id = task.dag_run_id AND attempt.task_index = task.task_index
    ) AS is_attempted, run.backfill_id
FROM unnest($1::bigint[], $2::integer[]) AS target (dag_run_id, task_index)
JOIN task_instance AS task USING (dag_run_id, task_index)
JOIN dag_run AS run ON run.id = task.dag_run_id
JOIN dag USING (dag_id)
WHERE $3::text IS NULL OR task.pool = $3

-- name: limited_activity
SELECT task.dag_run_id, run.dag_id, task.task_id
FROM limited_task AS task
JOIN dag_run AS run ON run.id = task.dag_run_id
WHERE task.task_id = ANY ($1::text[])
