-- name: reserve
SELECT nextval('backfill_id_seq')

-- name: dag_ids
-- The DAG of each backfill, which never changes, and the DAGs of its stages once the first one has begun.
SELECT id, dag_id, CASE WHEN scan_until > 0 THEN ARRAY(SELECT jsonb_array_elements_text(stages)) ELSE '{}' END AS stage_dag_ids
FROM backfill
WHERE id = ANY ($1::bigint[])

-- name: lock
-- The lock of the DAG comes first; this one is against requests about a DAG that is held.
SELECT {backfill.BackfillView}
FROM backfill
WHERE id = ANY ($1::bigint[])
ORDER BY id
FOR NO KEY UPDATE

-- name: active_of
-- The backfills of a locked DAG that have not ended.
SELECT {backfill.BackfillView}
FROM backfill
WHERE dag_id = $1 AND backfill_is_active(state)
ORDER BY id

-- name: unended
SELECT id FROM backfill WHERE id = ANY ($1::bigint[]) AND backfill_is_active(state)

-- name: waiting_for
-- The backfills that have not ended, and in whose cascades runs of a locked DAG have not ended or are to run again.
SELECT backfill.id
FROM backfill
WHERE backfill.stages ? $1 AND backfill_is_active(backfill.state) AND EXISTS (
    SELECT FROM backfill_date AS date JOIN dag_run AS run ON run.id = date.dag_run_id
    WHERE date.backfill_id = backfill.id AND date.state IN ('open', 'retry') AND run.dag_id = $1
)
ORDER BY backfill.id

-- name: capacities
-- What backfills may start, in a pool.
SELECT
    backfill.id, backfill.state, backfill.max_active_runs, backfill.max_active_tasks, active.tasks AS active_tasks,
    share_slots(backfill.share, $2::text) AS share_slots, active.slots AS occupied
FROM backfill
CROSS JOIN LATERAL backfill_activity(backfill.id, $2::text) AS active
WHERE backfill.id = ANY ($1::bigint[])

-- name: activity
-- The running runs of each backfill. Runs of held DAGs occupy no slot, so that other DAGs of a cascade go on. `waiting` counts
-- runs whose tasks wait for the previous run; the last of these comes at `waiting_until` in the order of runs.
SELECT
    target.id,
    count(*) FILTER (WHERE run.state = 'running') AS running,
    count(*) FILTER (WHERE run.is_waiting) AS waiting,
    max(run.order_at) FILTER (WHERE run.is_waiting) AS waiting_until
FROM unnest($1::bigint[], $2::boolean[]) AS target (id, is_sequential)
LEFT JOIN LATERAL (
    SELECT
        run.state, run.order_at, target.is_sequential AND run.state = 'running' AND waits_for_past(run.id) AS is_waiting
    FROM dag_run AS run
    JOIN dag ON dag.dag_id = run.dag_id AND dag.held_since IS NULL
    WHERE run.backfill_id = target.id AND run.state = 'running'
) AS run ON true
GROUP BY target.id

-- name: queued_runs
-- The first queued runs of each backfill, in the order of its dates. A user may have cleared runs of an earlier stage, whose DAG
-- starts nothing now.
SELECT {run.RunView}
FROM unnest($1::bigint[], $2::boolean[], $3::integer[]) AS target (id, is_reverse, most)
CROSS JOIN LATERAL (
    SELECT run.*
    FROM dag_run AS run
    JOIN dag ON dag.dag_id = run.dag_id AND dag.held_since IS NULL AND NOT dag.is_paused AND NOT dag.is_stale
    WHERE run.backfill_id = target.id AND run.state = 'queued'
    ORDER BY CASE WHEN target.is_reverse THEN NULL ELSE run.order_at END, run.order_at DESC, run.id
    LIMIT target.most
) AS run
ORDER BY target.id, CASE WHEN target.is_reverse THEN NULL ELSE run.order_at END, run.order_at DESC, run.id

-- name: active_runs
-- The first runs of each backfill that are queued or wait for the previous run; with `running` also all running ones.
SELECT run.id
FROM unnest($1::bigint[], $2::boolean[]) AS target (id, running)
CROSS JOIN LATERAL (
    SELECT id
    FROM dag_run
    WHERE backfill_id = target.id AND (state = 'queued' OR (state = 'running' AND (target.running OR waits_for_past(id))))
    ORDER BY id
    LIMIT $3
) AS run

-- name: ended_dates
-- The first open dates of each backfill whose runs have ended, or are gone.
SELECT
    date.backfill_id,
    date.ordinal,
    CASE date.run_state WHEN 'success' THEN 'success' ELSE 'failed' END AS state,
    task.tasks, task.tasks_succeeded, task.tasks_skipped, task.tasks_failed
FROM unnest($1::bigint[]) AS target (id)
CROSS JOIN LATERAL (
    SELECT date.backfill_id, date.ordinal, date.dag_run_id, dag_run.state AS run_state
    FROM backfill_date AS date
    LEFT JOIN dag_run ON dag_run.id = date.dag_run_id
    WHERE date.backfill_id = target.id AND date.state = 'open' AND coalesce(dag_run.state IN ('success', 'failed'), true)
    ORDER BY date.ordinal
    LIMIT $2
) AS date
CROSS JOIN LATERAL run_task_counts(date.dag_run_id) AS task
ORDER BY date.backfill_id, date.ordinal

-- name: retries
-- The first dates of each backfill that are to run again, with their runs; `all_stages`: also those of stages to come. A run that
-- is at work for it, and is to run again whole because an input was rewritten meanwhile, ends first; so does a run that has read
-- older data, whose date has a reason.
SELECT
    target.id, date.ordinal, date.dag_run_id, date.is_whole, date.logical_date, date.reason <> '' AS was_cancelled,
    task.tasks, task.tasks_succeeded, task.tasks_skipped, task.tasks_failed
FROM unnest($1::bigint[], $2::integer[]) AS target (id, most)
CROSS JOIN LATERAL (
    SELECT *
    FROM backfill_date AS date
    WHERE backfill_id = target.id AND state = 'retry' AND ($3 OR NOT is_of_later_stage(backfill_id, dag_run_id))
      AND NOT (is_whole AND EXISTS (
          SELECT FROM dag_run AS run
          WHERE run.id = date.dag_run_id
            AND (
                (run.state = 'running' AND date.reason <> '')
                OR (run.state IN ('queued', 'running') AND run.backfill_id = date.backfill_id)
            )
      ))
    ORDER BY ordinal
    LIMIT target.most
) AS date
CROSS JOIN LATERAL run_task_counts(date.dag_run_id) AS task
ORDER BY target.id, date.ordinal

-- name: busy
-- The backfills with a date of their stage, or of an earlier one, whose run has not ended or is to run again.
SELECT id
FROM unnest($1::bigint[]) AS target (id)
WHERE EXISTS (
    SELECT FROM backfill_date AS date
    JOIN dag_run AS run ON run.id = date.dag_run_id
    WHERE date.backfill_id = target.id AND NOT is_of_later_stage(target.id, run.id)
      AND (date.state = 'retry' OR (date.state = 'open' AND run.state IN ('queued', 'running')))
)

-- name: waiting_for_others
-- The backfills with a date that is to run again once its run has ended, which is none of the backfill: its end notifies nothing.
SELECT id
FROM unnest($1::bigint[]) AS target (id)
WHERE EXISTS (
    SELECT FROM backfill_date AS date
    JOIN dag_run AS run ON run.id = date.dag_run_id
    WHERE date.backfill_id = target.id AND date.state = 'retry' AND date.is_whole AND date.reason <> ''
      AND run.state = 'running' AND run.backfill_id IS DISTINCT FROM target.id
)

-- name: ordinals
-- The dates of these runs of backfills that are open, or to run again.
SELECT date.backfill_id, date.dag_run_id, date.ordinal
FROM unnest($1::bigint[], $2::bigint[]) AS target (backfill_id, dag_run_id)
JOIN backfill_date AS date USING (backfill_id, dag_run_id)
WHERE date.state IN ('open', 'retry')

-- name: runs_of_dates
SELECT dag_id, logical_date, id, run_id, state
FROM unnest($1::text[], $2::timestamptz[]) AS target (dag_id, logical_date)
JOIN dag_run USING (dag_id, logical_date)

-- name: insert
INSERT INTO backfill (
    id, version_id, horizon, max_active_runs, max_active_tasks, share, pool, priority, max_failed_runs, dag_id, start_date,
    end_date, logical_dates, dag_params, reprocess, is_reverse, outlets, description, ignore_first_depends_on_past, stages,
    relative_fileloc, origin_code, submitted_by, submitted_at, updated_at, due_at
)
SELECT
    new.id, new.version_id, new.horizon, new.max_active_runs, new.max_active_tasks, new.share, new.pool, new.priority,
    new.max_failed_runs, new.dag_id, new.start_date, new.end_date, new.logical_dates::timestamptz[], new.dag_params,
    new.reprocess, new.is_reverse, new.outlets, new.description, new.ignore_first_depends_on_past, new.stages::jsonb,
    version.path, version.source,
    coalesce($22::text, $21::uuid::text, $23::text), $24::timestamptz, $24::timestamptz, $24::timestamptz
FROM unnest(
    $1::bigint[], $2::bigint[], $3::timestamptz[], $4::integer[], $5::integer[], $6::double precision[], $7::text[],
    $8::integer[], $9::integer[], $10::text[], $11::timestamptz[], $12::timestamptz[], $13::text[], $14::jsonb[], $15::text[],
    $16::boolean[], $17::text[], $18::text[], $19::boolean[], $20::text[]
) AS new (
    id, version_id, horizon, max_active_runs, max_active_tasks, share, pool, priority, max_failed_runs, dag_id, start_date,
    end_date, logical_dates, dag_params, reprocess, is_reverse, outlets, description, ignore_first_depends_on_past, stages
)
JOIN dag_version AS version ON version.id = new.version_id

-- name: update
-- The counters follow the dates.
UPDATE backfill
SET end_date = change.end_date,
    horizon = change.horizon,
    state = change.state,
    planned_until = change.planned_until,
    scheduled_date = CASE WHEN change.planned_until IS NOT NULL THEN coalesce(backfill.scheduled_date, now()) END,
    is_planned = change.is_planned,
    stop_reason = change.stop_reason,
    kills = change.kills,
    was_cancelled = change.was_cancelled,
    run_start_date = change.run_start_date,
    run_end_date = change.run_end_date,
    deleted = change.deleted,
    stage = change.stage,
    stage_version_id = change.stage_version_id,
    scanned = change.scanned,
    scan_until = change.scan_until,
    stages = change.stages::jsonb,
    delete_date = CASE WHEN change.deleted THEN coalesce(backfill.delete_date, now()) END,
    due_at = change.due_at,
    updated_at = now()
FROM unnest(
    $1::bigint[], $2::timestamptz[], $3::timestamptz[], $4::backfill_state[], $5::timestamptz[], $6::boolean[], $7::text[],
    $8::boolean[], $9::boolean[], $10::timestamptz[], $11::timestamptz[], $12::boolean[], $13::integer[], $14::bigint[],
    $15::integer[], $16::integer[], $17::text[], $18::timestamptz[]
) AS change (
    id, end_date, horizon, state, planned_until, is_planned, stop_reason, kills, was_cancelled, run_start_date, run_end_date,
    deleted, stage, stage_version_id, scanned, scan_until, stages, due_at
)
WHERE backfill.id = change.id

-- name: pin_version
UPDATE backfill
SET version_id = version.id, relative_fileloc = version.path, origin_code = version.source
FROM unnest($1::bigint[], $2::bigint[]) AS change (backfill_id, version_id)
JOIN dag_version AS version ON version.id = change.version_id
WHERE backfill.id = change.backfill_id

-- name: set_limits
-- Under the locks of its unfinished runs. Waiting tasks get the new demand; active tasks get it with their next try.
WITH changed AS (
    UPDATE backfill
    SET max_active_runs = change.max_active_runs,
        max_active_tasks = change.max_active_tasks,
        share = change.share,
        pool = change.pool,
        priority = change.priority,
        max_failed_runs = change.max_failed_runs,
        updated_at = now()
    FROM unnest(
        $1::bigint[], $2::integer[], $3::integer[], $4::double precision[], $5::text[], $6::integer[], $7::integer[]
    ) AS change (id, max_active_runs, max_active_tasks, share, pool, priority, max_failed_runs)
    WHERE backfill.id = change.id
    RETURNING backfill.id, backfill.pool, backfill.priority
),
run AS (
    UPDATE dag_run
    SET pool = changed.pool, priority = changed.priority
    FROM changed, dag_run AS before
    WHERE dag_run.backfill_id = changed.id AND dag_run.state IN ('queued', 'running') AND before.id = dag_run.id
    RETURNING dag_run.id, dag_run.version_id, changed.pool, changed.priority - before.priority AS more_priority
)
UPDATE task_instance AS task
SET pool = coalesce(run.pool, task_pool(version.spec, task.task_id)), rank = rank_with(task.rank, run.more_priority)
FROM run
JOIN dag_version AS version ON version.id = run.version_id
WHERE task.dag_run_id = run.id
  AND task.state NOT IN ('queued', 'running', 'success', 'failed', 'skipped', 'upstream_failed', 'removed')

-- name: replayed
-- The first runs of each DAG in a range of the times by which they are ordered, that are no dates of its backfill yet.
SELECT target.id AS backfill_id, run.order_at, run.id, run.run_id, run.state, NULL::integer AS ordinal, false AS is_outdated
FROM unnest($1::bigint[], $2::text[], $3::timestamptz[], $4::timestamptz[]) AS target (id, dag_id, first, last)
CROSS JOIN LATERAL (
    SELECT *
    FROM dag_run
    WHERE dag_run.dag_id = target.dag_id AND order_at >= target.first AND order_at <= target.last
      AND NOT EXISTS (SELECT FROM backfill_date WHERE backfill_id = target.id AND dag_run_id = dag_run.id)
    ORDER BY order_at, dag_run.id
    LIMIT $5
) AS run
ORDER BY target.id, run.order_at, run.id

-- name: edges
-- The DAGs that consume outlets of a DAG, directly or not: each with a DAG that produces for it. Stale ones start no runs.
WITH RECURSIVE reached (dag_id) AS (
    SELECT $1::text COLLATE "C"
    UNION
    SELECT consumer.dag_id
    FROM reached
    JOIN task_outlet_dataset_reference AS outlet ON outlet.dag_id = reached.dag_id
    JOIN dag_schedule_dataset_reference AS consumer ON consumer.dataset_id = outlet.dataset_id
    JOIN dag ON dag.dag_id = consumer.dag_id AND NOT dag.is_stale
)
SELECT DISTINCT outlet.dag_id AS producer, consumer.dag_id AS consumer
FROM reached
JOIN task_outlet_dataset_reference AS outlet ON outlet.dag_id = reached.dag_id
JOIN dag_schedule_dataset_reference AS consumer ON consumer.dataset_id = outlet.dataset_id
JOIN dag ON dag.dag_id = consumer.dag_id AND NOT dag.is_stale

-- name: refusing
-- Which of these DAGs allow no backfills.
SELECT dag.dag_id FROM dag JOIN dag_version AS version ON version.id = dag.version_id
WHERE dag.dag_id = ANY ($1::text[]) AND version.spec -> 'allow_backfills' = 'false'
ORDER BY dag.dag_id

-- name: rewritten
-- The outlets of tasks that succeeded again in runs that ran again and succeeded, of dates of each backfill in a range of
-- ordinals. Of a run of which a user cleared some tasks, the others have written nothing. A version that cannot be read has no
-- outlets.
SELECT
    target.id AS backfill_id, run.dag_id, run.run_id, task.task_id, outlet.uri, in_calendar(date.again_since) AS again_since,
    run.end_date
FROM unnest($1::bigint[], $2::integer[], $3::integer[]) AS target (id, after, until)
JOIN backfill_date AS date
    ON date.backfill_id = target.id AND date.ordinal > target.after AND date.ordinal <= target.until
JOIN dag_run AS run ON run.id = date.dag_run_id
JOIN dag_version AS version ON version.id = run.version_id
JOIN task_instance AS task ON task.dag_run_id = run.id AND task.state = 'success' AND is_task(task.task_index)
CROSS JOIN LATERAL jsonb_array_elements_text(task_outlets(version.spec, task.task_id)) AS outlet (uri)
WHERE date.state = 'success' AND task.end_date >= date.again_since

-- name: consumers
-- The runs of consumers that consumed these events of outlets, others of the same task and dataset, or those of the task's
-- instances, and are no dates of the backfill yet, or ran before the outlet was rewritten: a retry may rewrite it after them. An
-- event later than `again_since` comes from the rerun: its consumers have read the new data. OFFSET: as in `tasks.results`.
SELECT
    outlet.backfill_id, run.order_at, run.id, run.run_id, run.state, date.ordinal,
    date.ordinal IS NULL AND run.state = 'running' AND bool_or(run.start_date < outlet.end_date) AS is_outdated
FROM unnest(
    $1::text[], $2::text[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], $8::timestamptz[], $9::timestamptz[]
) AS outlet (consumer_id, event_id, backfill_id, dag_id, run_id, task_id, uri, again_since, end_date)
CROSS JOIN LATERAL (
    SELECT id, occurred_at FROM dataset_event WHERE source = 'tidegate' AND event_id = outlet.event_id
    UNION ALL
    SELECT id, occurred_at
    FROM dataset_event
    WHERE source_dag_id = outlet.dag_id AND source_run_id = outlet.run_id
      AND source_task_id = outlet.task_id
      AND dataset_id = (SELECT id FROM dataset WHERE dataset.uri = outlet.uri)
    OFFSET 0
) AS event
JOIN dagrun_dataset_event AS consumed ON (consumed.dag_id, consumed.dataset_event_id) = (outlet.consumer_id, event.id)
JOIN dag_run AS run ON run.id = consumed.dag_run_id
LEFT JOIN backfill_date AS date ON date.backfill_id = outlet.backfill_id AND date.dag_run_id = run.id
WHERE event.occurred_at <= outlet.again_since AND (
    date.ordinal IS NULL
    OR (run.start_date < outlet.end_date AND (
        date.state = 'success'
        OR (date.state = 'retry' AND NOT date.is_whole)
        OR (date.state = 'open' AND run.state IN ('running', 'success'))
    ))
)
GROUP BY outlet.backfill_id, run.order_at, run.id, run.run_id, run.state, date.ordinal
ORDER BY outlet.backfill_id, run.order_at, run.id

-- name: take_runs
UPDATE dag_run
SET backfill_id = change.backfill_id,
    conf = coalesce(change.conf, dag_run.conf),
    pool = change.pool,
    priority = change.priority,
    updates_outlets = change.updates_outlets
FROM unnest($1::bigint[], $2::bigint[], $3::jsonb[], $4::text[], $5::integer[], $6::boolean[])
    AS change (dag_run_id, backfill_id, conf, pool, priority, updates_outlets)
WHERE dag_run.id = change.dag_run_id

-- name: wake
UPDATE backfill
SET due_at = least(backfill.due_at, woken.at)
FROM unnest($1::text[], $2::timestamptz[]) AS woken (dag_id, at)
WHERE (woken.dag_id = backfill.dag_id OR backfill.stages ? woken.dag_id) AND backfill_is_active(backfill.state)
