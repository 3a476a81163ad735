-- name: runs_before
SELECT run.id, run.run_id, run.run_type, run.state, run.start_date, run.end_date, run.order_at
FROM dag_run AS run
WHERE run.dag_id = $1 AND run.order_at IS NOT NULL AND ($2::timestamptz IS NULL OR (run.order_at, run.id) < ($2, $3))
ORDER BY run.order_at DESC, run.id DESC
LIMIT $4

-- name: runs_after
SELECT run.id, run.run_id, run.run_type, run.state, run.start_date, run.end_date, run.order_at
FROM dag_run AS run
WHERE run.dag_id = $1 AND run.order_at IS NOT NULL AND (run.order_at, run.id) > ($2, $3)
ORDER BY run.order_at, run.id
LIMIT $4

-- name: cells
-- One row per run, with columns of its tasks and of its mapped tasks; instances are counted without removed ones, which a
-- shorter list lacks. Only the indices from $3 to before $4 of tasks, and from $5 to before $6 of instances of mapped tasks are
-- read: a run may have thousands of tasks. A row per task would take twice the time.
SELECT
    run.id, task.task_ids, task.states, task.tries,
    mapped.task_ids AS mapped_ids, mapped.states AS mapped_states, mapped.instances, mapped.succeeded,
    mapped.tries AS mapped_tries
FROM unnest($1::bigint[]) AS run (id)
CROSS JOIN LATERAL (
    SELECT array_agg(task_id) AS task_ids, array_agg(state::text) AS states, array_agg(try_number) AS tries
    FROM task_instance
    WHERE dag_run_id = run.id AND task_index >= $3 AND task_index < $4 AND task_id = ANY($2)
) AS task
CROSS JOIN LATERAL (
    SELECT
        array_agg(task_id) AS task_ids, array_agg(state) AS states, array_agg(instances) AS instances,
        array_agg(succeeded) AS succeeded, array_agg(try_number) AS tries
    FROM (
        SELECT
            task_id, max(state::text) AS state, count(*) FILTER (WHERE state <> 'removed') AS instances,
            count(*) FILTER (WHERE state = 'success') AS succeeded, max(try_number) AS try_number
        FROM task_instance
        WHERE dag_run_id = run.id AND task_index >= $5 AND task_index < $6 AND task_id = ANY($2)
        GROUP BY task_id
    ) AS of_task
) AS mapped

-- name: usual
-- The 10th, 50th and 90th percentile of the durations of the last successful runs of each DAG, among its newest 1,000 runs.
-- The index alone has the state.
SELECT wanted.dag_id, usual.seconds, usual.runs
FROM unnest($1::text[]) AS wanted (dag_id)
CROSS JOIN LATERAL (
    SELECT percentile_cont(ARRAY[0.1, 0.5, 0.9]) WITHIN GROUP (ORDER BY seconds) AS seconds, count(*) AS runs
    FROM (
        SELECT extract(epoch FROM run.end_date - run.start_date)::double precision AS seconds
        FROM (
            SELECT id
            FROM (
                SELECT id, state, order_at FROM dag_run
                WHERE dag_id = wanted.dag_id AND order_at IS NOT NULL
                ORDER BY order_at DESC, id DESC
                LIMIT 1000
            ) AS newest
            WHERE state = 'success'
            ORDER BY order_at DESC, id DESC
            LIMIT 100
        ) AS success
        JOIN dag_run AS run ON run.id = success.id
        WHERE run.start_date IS NOT NULL
    ) AS last
) AS usual
WHERE usual.runs > 0

-- name: range
-- The times of the first and the last run.
SELECT
    (SELECT order_at FROM dag_run WHERE dag_id = $1 AND order_at IS NOT NULL ORDER BY order_at, id LIMIT 1) AS first,
    (SELECT order_at FROM dag_run WHERE dag_id = $1 AND order_at IS NOT NULL ORDER BY order_at DESC, id DESC LIMIT 1) AS last

-- name: days
-- The newest $4 runs from $2 on and before $3, counted by state and day: the number of the last of the starts $5 before them.
SELECT width_bucket(order_at, $5::timestamptz[]) AS day, state, count(*) AS runs
FROM (
    SELECT order_at, state FROM dag_run
    WHERE dag_id = $1 AND order_at >= $2 AND order_at < $3 AND order_at IS NOT NULL
    ORDER BY order_at DESC, id DESC LIMIT $4
) AS run
GROUP BY 1, 2
ORDER BY 1, 2

-- name: versions
SELECT number, created_at, path, digest FROM dag_version
WHERE dag_id = $1 AND ($3::int IS NULL OR number < $3)
ORDER BY number DESC
LIMIT $2

-- name: current_version
SELECT version.number, version.created_at, version.path, version.digest
FROM dag JOIN dag_version AS version ON version.id = dag.version_id
WHERE dag.dag_id = $1

-- name: version
SELECT number, created_at, path, source, spec FROM dag_version WHERE dag_id = $1 AND number = $2

-- name: modules
-- The modules that the functions of a version import, and its applications in Python.
SELECT used.path, module.source
FROM dag_version AS version
JOIN version_module AS used ON used.version_id = version.id
JOIN module_source AS module ON module.digest = used.digest
WHERE version.dag_id = $1 AND version.number = $2
