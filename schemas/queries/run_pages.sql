-- name: list_runs
-- The bounds of the id are there also without $10: by them, a plan for all parameters finds that run alone. A version may have
-- thousands of tasks: it is unpacked once for all of its runs.
WITH run AS MATERIALIZED (
    SELECT run.*
    FROM dag_run AS run
    WHERE ($1::text IS NULL OR run.dag_id = $1)
      AND ($2::run_state IS NULL OR run.state = $2)
      AND ($3::text IS NULL OR run.run_id = $3)
      AND ($5::run_type IS NULL OR run.run_type = $5)
      AND ($6::timestamptz IS NULL OR run.order_at >= $6)
      AND ($7::timestamptz IS NULL OR run.order_at <= $7)
      AND ($8::bigint IS NULL OR run.id IN (
          SELECT dag_run_id FROM backfill_date WHERE backfill_id = $8 AND state <> 'skipped'
      ))
      AND ($9::bigint IS NULL OR run.id < $9)
      AND ($11::text[] IS NULL OR run.dag_id = ANY ($11))
      AND ($12::bigint[] IS NULL OR run.id = ANY ($12))
      AND run.id BETWEEN coalesce($10::bigint, 0) AND coalesce($10, 9223372036854775807)
    ORDER BY run.id DESC
    LIMIT $4
),
version AS MATERIALIZED (
    SELECT id, number, CASE jsonb_typeof(tasks) WHEN 'array' THEN jsonb_array_length(tasks) ELSE 0 END AS tasks
    FROM (
        SELECT id, number, spec -> 'tasks' AS tasks FROM dag_version WHERE id IN (SELECT version_id FROM run) OFFSET 0
    ) AS unpacked
)
SELECT
    run.dag_id, run.run_id, run.run_type, run.state, run.run_after, run.created_at, run.start_date, run.end_date,
    version.number AS version, run.unfinished, version.tasks,
    run.logical_date, run.data_interval_start, run.data_interval_end,
    extract(epoch FROM run.start_date - run.run_after)::double precision AS schedule_delay_s,
    (
        SELECT max(backfill_id) FROM backfill_date AS date WHERE date.dag_run_id = run.id AND date.state <> 'skipped'
    ) AS backfill_id
FROM run
JOIN version ON version.id = run.version_id
ORDER BY run.id DESC

-- name: tagged
SELECT dag.dag_id
FROM dag JOIN dag_version AS version ON version.id = dag.version_id
WHERE version.spec -> 'tags' ? $1

-- name: of_dataset
-- The newest runs that consumed an event of a dataset.
SELECT DISTINCT consumed.dag_run_id
FROM dataset
JOIN dataset_subscription AS subscription ON subscription.dataset_id = dataset.id
JOIN dataset_event AS event ON event.dataset_id = dataset.id
JOIN dagrun_dataset_event AS consumed ON (consumed.dag_id, consumed.dataset_event_id) = (subscription.dag_id, event.id)
WHERE dataset.uri = $1
ORDER BY consumed.dag_run_id DESC
LIMIT $2

-- name: run_number
SELECT id FROM dag_run WHERE dag_id = $1 AND run_id = $2

-- name: newest_number
-- Among the last runs of all DAGs; only where it is older than those, all runs of the DAG are read. OFFSET keeps the planner from
-- the index of ids, in which the runs of a DAG are few.
SELECT coalesce(
    (
        SELECT id FROM (
            SELECT id, dag_id FROM dag_run
            WHERE id > (SELECT id FROM dag_run WHERE id > 0 ORDER BY id DESC LIMIT 1) - 1000
            ORDER BY id DESC LIMIT 1000
        ) AS recent
        WHERE dag_id = $1 ORDER BY id DESC LIMIT 1
    ),
    (SELECT id FROM (SELECT id FROM dag_run WHERE dag_id = $1 AND order_at IS NOT NULL OFFSET 0) AS run ORDER BY id DESC LIMIT 1)
) AS id

-- name: run_events
-- The extra of the first events, of $3 bytes together.
SELECT
    dataset.uri, event.source, event.event_id, event.occurred_at,
    CASE WHEN sum(event.extra_bytes) OVER (ORDER BY event.occurred_at, event.id) <= $3::bigint THEN event.extra END AS extra,
    event.source_dag_id, event.source_run_id, event.source_task_id, event.source_map_index
FROM dag_run AS run
JOIN dagrun_dataset_event AS consumed ON consumed.dag_run_id = run.id
JOIN dataset_event AS event ON event.id = consumed.dataset_event_id
JOIN dataset ON dataset.id = event.dataset_id
WHERE run.dag_id = $1 AND run.run_id = $2
ORDER BY event.occurred_at, event.id

-- name: run_event_count
-- For runs of an earlier Tidegate without those older than the retention.
SELECT
    coalesce(run.events, (SELECT count(*) FROM dagrun_dataset_event AS consumed WHERE consumed.dag_run_id = run.id)) AS consumed,
    coalesce(run.events_left, 0) AS left_pending
FROM dag_run AS run
WHERE run.dag_id = $1 AND run.run_id = $2

-- name: run_tasks
-- The instances of a mapped task, such as `load[3]`, follow it; removed tasks come last. A run may have a million: of tasks, of
-- instances and of removed tasks the first ones after the indices $3, $4 and $5 are read, each list by the index, and of those on
-- the page alone the attempts.
SELECT
    task.task_index,
    task.task_id, map_index(task.task_index) AS map_index,
    task.state, task.try_number, task.start_date, task.end_date, task.next_try_at,
    submission.submission_id, submission.backend, submission.state AS submission_state,
    coalesce(nullif(task.reason, ''), submission.reason) AS reason
FROM (
    SELECT task.*
    FROM dag_run AS run
    CROSS JOIN LATERAL (
        (
            SELECT * FROM task_instance AS plain
            WHERE dag_run_id = run.id AND task_index > $3 AND is_task(task_index)
              AND ($7::task_state IS NULL OR state = $7)
              AND ($8::text IS NULL OR $8 = instance_name(task_id, task_index))
            ORDER BY task_index LIMIT $6
        )
        UNION ALL
        (
            SELECT * FROM task_instance AS of_mapped
            WHERE dag_run_id = run.id AND task_index > $4
              AND ($7::task_state IS NULL OR state = $7)
              AND ($8::text IS NULL OR $8 = instance_name(task_id, task_index))
            ORDER BY task_index LIMIT $6
        )
        UNION ALL
        (
            SELECT * FROM task_instance AS removed
            WHERE dag_run_id = run.id AND task_index > $5 AND task_index < 0
              AND ($7::task_state IS NULL OR state = $7)
              AND ($8::text IS NULL OR $8 = instance_name(task_id, task_index))
            ORDER BY task_index LIMIT $6
        )
    ) AS task
    WHERE run.dag_id = $1 AND run.run_id = $2
    ORDER BY task.task_index < 0, task_position(task.task_index), task.task_index
    LIMIT $6
) AS task
LEFT JOIN submission ON (submission.dag_run_id, submission.task_index, submission.try_number)
    = (task.dag_run_id, task.task_index, task.try_number)
ORDER BY task.task_index < 0, task_position(task.task_index), task.task_index

-- name: map_labels
-- What names the instances of mapped tasks for people: the field of the element that `map_label` of the task names, or the whole
-- element. The list that a mapped task returns is that of the results of its instances.
WITH mapped AS MATERIALIZED (
    SELECT
        run.id AS dag_run_id, task ->> 'task_id' AS task_id, task ->> 'over' AS over,
        string_to_array(nullif(task ->> 'map_label', ''), '.') AS path
    FROM dag_run AS run
    JOIN dag_version AS version ON version.id = run.version_id
    CROSS JOIN LATERAL jsonb_array_elements(
        CASE jsonb_typeof(version.spec -> 'tasks') WHEN 'array' THEN version.spec -> 'tasks' ELSE '[]' END
    ) AS task
    WHERE run.dag_id = $1 AND run.run_id = $2 AND task ->> 'task_id' = ANY ($3::text[])
),
element AS MATERIALIZED (
    SELECT mapped.task_id, mapped.path, listed.number - 1 AS map_index, listed.value
    FROM mapped
    JOIN task_instance AS over
        ON over.dag_run_id = mapped.dag_run_id AND over.task_id = mapped.over AND is_task(over.task_index) AND over.elements = 0
    JOIN task_result AS list ON (list.dag_run_id, list.task_index) = (over.dag_run_id, over.task_index)
    CROSS JOIN LATERAL jsonb_array_elements(
        CASE jsonb_typeof(list.value) WHEN 'array' THEN list.value ELSE '[]' END
    ) WITH ORDINALITY AS listed (value, number)
    UNION ALL
    SELECT mapped.task_id, mapped.path, map_index(twin.task_index), result.value
    FROM mapped
    JOIN task_instance AS twin
        ON twin.dag_run_id = mapped.dag_run_id AND twin.task_id = mapped.over AND twin.task_index >= 1048576
    JOIN task_result AS result ON (result.dag_run_id, result.task_index) = (twin.dag_run_id, twin.task_index)
)
SELECT task_id, map_index, left(coalesce(element.value #>> element.path, element.value #>> '{}'), 200) AS label
FROM unnest($3::text[], $4::integer[]) AS wanted (task_id, map_index)
JOIN element USING (task_id, map_index)

-- name: task_index
-- Removed tasks may have the name of one another and of one that is in the run.
SELECT task.task_index
FROM dag_run AS run
JOIN task_instance AS task ON task.dag_run_id = run.id
WHERE run.dag_id = $1 AND run.run_id = $2 AND task.task_id = $3 AND task.task_index >= 0
  AND map_index(task.task_index) IS NOT DISTINCT FROM $4::int

-- name: run_conf
SELECT conf FROM dag_run WHERE dag_id = $1 AND run_id = $2

-- name: run_states
-- The number of the task instances of a run in each state.
SELECT task.state::text AS state, count(*) AS tasks
FROM dag_run AS run
JOIN task_instance AS task ON task.dag_run_id = run.id
WHERE run.dag_id = $1 AND run.run_id = $2
GROUP BY task.state
ORDER BY task.state

-- name: run_journal
SELECT log.seq, log.state, log.reason, log.at
FROM dag_run AS run
JOIN run_state_log AS log ON log.dag_run_id = run.id
WHERE run.dag_id = $1 AND run.run_id = $2
ORDER BY log.seq

-- name: state_reason
SELECT last.reason
FROM dag_run AS run
JOIN run_state_change AS last ON last.dag_run_id = run.id
WHERE run.dag_id = $1 AND run.run_id = $2
ORDER BY last.seq DESC
LIMIT 1

-- name: run_attempts
-- Of the tasks with the name $3 the one that the lists show first: removed ones may have it as well.
SELECT
    task.task_index,
    task.task_id, map_index(task.task_index) AS map_index,
    submission.try_number, submission.submission_id, submission.backend, submission.state, submission.host,
    submission.reason, submission.exit_code, submission.created_at, submission.submitted_at, submission.started_at,
    submission.ended_at, submission.log_path, submission.log_tail
FROM dag_run AS run
JOIN task_instance AS task ON task.dag_run_id = run.id
JOIN submission ON (submission.dag_run_id, submission.task_index) = (task.dag_run_id, task.task_index)
LEFT JOIN LATERAL (
    SELECT instance.task_index
    FROM task_instance AS instance
    WHERE instance.dag_run_id = run.id AND $3::text = instance_name(instance.task_id, instance.task_index)
    ORDER BY instance.task_index < 0, instance.task_index
    LIMIT 1
) AS named ON true
WHERE run.dag_id = $1 AND run.run_id = $2 AND ($3::text IS NULL OR task.task_index = named.task_index)
  AND ($4::int[] IS NULL OR submission.task_index = ANY ($4))
  AND ($5::submission_state[] IS NULL OR submission.state = ANY ($5))
ORDER BY submission.task_index, submission.try_number

-- name: origin
-- The number of events is unknown for a run of an earlier Tidegate whose events are all older than the retention.
SELECT
    run.run_type, run.state, run.run_after, run.logical_date, run.data_interval_start, run.data_interval_end,
    run.created_at, run.creator, run.cause, run.start_date, run.end_date,
    coalesce(run.events, (SELECT nullif(count(*), 0) FROM dagrun_dataset_event WHERE dag_run_id = run.id)) AS events,
    coalesce(run.events_left, 0) AS events_left,
    version.number AS version, version.created_at AS version_at, version.path, run.id, version.spec
FROM dag_run AS run
JOIN dag_version AS version ON version.id = run.version_id
WHERE run.dag_id = $1 AND run.run_id = $2

-- name: consumed
-- An event older than the retention has its number only. The extra of the first events, of $2 bytes together.
SELECT
    consumed.dataset_event_id AS number, dataset.uri, event.source, event.event_id AS id, event.occurred_at, event.received_at,
    CASE
        WHEN sum(event.extra_bytes) OVER (ORDER BY event.received_at, consumed.dataset_event_id) <= $2::bigint THEN event.extra
    END AS extra,
    event.source_dag_id, event.source_run_id, event.source_task_id, event.source_map_index
FROM dagrun_dataset_event AS consumed
LEFT JOIN dataset_event AS event ON event.id = consumed.dataset_event_id
LEFT JOIN dataset ON dataset.id = event.dataset_id
WHERE consumed.dag_run_id = $1
ORDER BY event.received_at, consumed.dataset_event_id

-- name: steps
-- The time at which a task became ready is known for its newest attempt only: a retry overwrites it.
SELECT
    task.task_id, task.task_index, attempt.try_number,
    CASE WHEN attempt.try_number = task.try_number THEN task.scheduled_at END AS turn_at,
    attempt.created_at AS admitted_at, attempt.submitted_at, attempt.started_at, attempt.ended_at, attempt.state,
    attempt.host
FROM submission AS attempt
JOIN task_instance AS task USING (dag_run_id, task_index)
WHERE attempt.dag_run_id = $1
ORDER BY attempt.created_at, attempt.task_index
LIMIT $2
