-- name: list
-- Backfills, newest first. Their tasks are those of counted dates, of the runs that have not ended, and of the runs that ended
-- since the last visit of the clock (`ended`). A backfill starts runs while both its DAG and that of its stage are active.
SELECT
    {backfill.BackfillView}, version.number AS version, coalesce(newest.number, version.number) AS newest_version,
    backfill.relative_fileloc, backfill.submitted_at, backfill.submitted_by,
    backfill.updated_at, backfill.scheduled_date, backfill.delete_date, run.queued, run.running, run.waiting,
    run.unstarted,
    backfill.tasks + run.tasks + ended.tasks AS tasks,
    backfill.tasks_succeeded + run.tasks_succeeded + ended.tasks_succeeded AS tasks_succeeded,
    backfill.tasks_skipped + run.tasks_skipped + ended.tasks_skipped AS tasks_skipped,
    backfill.tasks_failed + run.tasks_failed + ended.tasks_failed AS tasks_failed,
    inactive.dag_id AS inactive_dag_id, coalesce(inactive.state, '') AS dag_state,
    acted.who AS stopped_by, acted.at AS stopped_at,
    ended.succeeded AS ended_succeeded, ended.failed AS ended_failed
FROM backfill
JOIN dag_version AS version ON version.id = backfill.version_id
LEFT JOIN dag ON dag.dag_id = backfill.dag_id
LEFT JOIN dag_version AS newest ON newest.id = dag.version_id
LEFT JOIN LATERAL (
    SELECT dag_id, CASE WHEN held_since IS NOT NULL THEN 'held' WHEN is_stale THEN 'stale' ELSE 'paused' END AS state
    FROM dag
    WHERE dag_id IN (backfill.dag_id, backfill.stages ->> (nullif(backfill.stage, 0) - 1))
      AND (held_since IS NOT NULL OR is_stale OR is_paused)
    ORDER BY dag_id = backfill.dag_id DESC LIMIT 1
) AS inactive ON true
CROSS JOIN LATERAL (
    SELECT
        count(*) FILTER (WHERE run.state = 'queued') AS queued,
        count(*) FILTER (WHERE run.state = 'running') AS running,
        count(*) FILTER (WHERE run.state = 'running' AND waits_for_past(run.id)) AS waiting,
        count(*) FILTER (WHERE task.tasks = 0) AS unstarted,
        coalesce(sum(task.tasks), 0)::bigint AS tasks,
        coalesce(sum(task.tasks_succeeded), 0)::bigint AS tasks_succeeded,
        coalesce(sum(task.tasks_skipped), 0)::bigint AS tasks_skipped,
        coalesce(sum(task.tasks_failed), 0)::bigint AS tasks_failed
    FROM dag_run AS run
    CROSS JOIN LATERAL run_task_counts(run.id) AS task
    WHERE run.backfill_id = backfill.id AND run.state IN ('queued', 'running')
) AS run
CROSS JOIN LATERAL (
    SELECT
        count(*) FILTER (WHERE run.state = 'success') AS succeeded,
        count(*) FILTER (WHERE run.state = 'failed') AS failed,
        coalesce(sum(task.tasks), 0)::bigint AS tasks,
        coalesce(sum(task.tasks_succeeded), 0)::bigint AS tasks_succeeded,
        coalesce(sum(task.tasks_skipped), 0)::bigint AS tasks_skipped,
        coalesce(sum(task.tasks_failed), 0)::bigint AS tasks_failed
    FROM backfill_date AS date
    JOIN dag_run AS run ON run.id = date.dag_run_id AND run.state IN ('success', 'failed')
    CROSS JOIN LATERAL run_task_counts(run.id) AS task
    WHERE date.backfill_id = backfill.id AND date.state = 'open'
) AS ended
LEFT JOIN LATERAL (
    -- The index of the log has another collation than the id of a DAG. OFFSET keeps the planner from walking the whole log from
    -- its end.
    SELECT who, at
    FROM (
        SELECT id, who, at FROM audit_log
        WHERE object IN
            (('DAG ' || backfill.dag_id || ', backfill ' || backfill.id) COLLATE "default", 'backfill ' || backfill.id)
          AND what = CASE WHEN backfill.was_cancelled THEN 'cancelled a backfill' ELSE 'paused a backfill' END
        OFFSET 0
    ) AS entry
    ORDER BY id DESC LIMIT 1
) AS acted ON backfill.was_cancelled OR backfill.state = 'paused'
WHERE ($1::bigint[] IS NULL OR backfill.id = ANY ($1))
  AND ($2::text IS NULL OR backfill.dag_id = $2)
  AND ($3::text IS NULL OR backfill.state::text = $3)
  AND ($4 OR NOT backfill.deleted)
  AND ($6::bigint IS NULL OR backfill.id < $6)
ORDER BY backfill.id DESC
LIMIT $5

-- name: dates
-- The planned dates of a backfill from $3 on, in the order of planning. A date that failed has the reason of its run; one whose
-- run is running has the unended task that has come furthest.
SELECT
    date.ordinal, date.logical_date, date.state, run.dag_id, run.run_id, run.state AS run_state,
    version.number AS version, coalesce(nullif(date.reason, ''), last.reason, '') AS reason, task.task
FROM backfill_date AS date
LEFT JOIN dag_run AS run ON run.id = date.dag_run_id
LEFT JOIN dag_version AS version ON version.id = run.version_id
LEFT JOIN LATERAL (
    SELECT reason FROM run_state_change WHERE dag_run_id = date.dag_run_id ORDER BY seq DESC LIMIT 1
) AS last ON date.state IN ('failed', 'cancelled')
LEFT JOIN LATERAL (
    SELECT jsonb_build_object('task_id', task_id, 'state', state, 'pool', pool, 'waits_for_past', waits_for_past) AS task
    FROM task_instance
    WHERE dag_run_id = date.dag_run_id AND state IN ('running', 'queued', 'scheduled', 'up_for_retry', 'none')
    ORDER BY
        array_position(ARRAY['running', 'queued', 'scheduled', 'up_for_retry', 'none'], state::text),
        NOT waits_for_past,
        task_index
    LIMIT 1
) AS task ON date.state = 'open' AND run.state = 'running'
WHERE date.backfill_id = $1
  AND ($2::backfill_date_state IS NULL OR date.state = $2)
  AND date.ordinal > $3
  AND ($5::timestamptz IS NULL OR date.logical_date >= $5 AND date.logical_date < $5 + interval '24 hours')
ORDER BY date.ordinal
LIMIT $4

-- name: inactive_dags
-- The DAGs of these that start nothing.
SELECT dag_id, CASE WHEN held_since IS NOT NULL THEN 'held' WHEN is_stale THEN 'stale' ELSE 'paused' END AS state
FROM dag
WHERE dag_id = ANY ($1::text[]) AND (held_since IS NOT NULL OR is_stale OR is_paused)

-- name: scheduled
-- The task of each of these dates that waits for slots: of several the one that `dates` names.
SELECT DISTINCT ON (date.ordinal) date.ordinal, task.pool, task.dag_run_id, task.task_index
FROM backfill_date AS date
JOIN task_instance AS task ON task.dag_run_id = date.dag_run_id AND task.state = 'scheduled'
WHERE date.backfill_id = $1 AND date.ordinal = ANY ($2::integer[])
ORDER BY date.ordinal, NOT task.waits_for_past, task.task_index

-- name: days
-- The planned dates from $2 on and before $3, counted by state and day: the number of the last of the starts $4 before them.
SELECT width_bucket(logical_date, $4::timestamptz[]) AS day, state::text AS state, count(*) AS dates
FROM backfill_date
WHERE backfill_id = $1 AND logical_date >= $2 AND logical_date < $3
GROUP BY day, state

-- name: failures
-- The failed dates that were planned last, newest first.
SELECT run.id, date.logical_date, run.dag_id, run.run_id
FROM (
    SELECT ordinal, logical_date, dag_run_id FROM backfill_date
    WHERE backfill_id = $1 AND state = 'failed'
    ORDER BY ordinal DESC LIMIT $2
) AS date
JOIN dag_run AS run ON run.id = date.dag_run_id
ORDER BY date.ordinal DESC

-- name: stages
-- What became of the dates of each DAG of a cascade.
SELECT dag_id, dates, waiting, open, succeeded, failed, skipped, cancelled
FROM backfill_stage
WHERE backfill_id = $1 AND dates > 0

-- name: pool_shares
-- The pools in which tasks of a backfill hold slots. `others` counts tasks of other runs among the first $2 of the pool's queue.
SELECT mine.pool, mine.held, pool.slots, others.tasks AS others
FROM (
    SELECT task.pool, sum(task.pool_slots)::bigint AS held
    FROM backfill_date AS date
    JOIN occupying_task AS task ON task.dag_run_id = date.dag_run_id
    WHERE date.backfill_id = $1 AND date.state = 'open'
    GROUP BY task.pool
) AS mine
LEFT JOIN pool ON pool.name = mine.pool
CROSS JOIN LATERAL (
    SELECT count(*) AS tasks
    FROM (
        SELECT dag_run_id FROM task_instance
        WHERE pool = mine.pool AND state = 'scheduled'
        ORDER BY rank, order_at, dag_run_id, task_index LIMIT $2
    ) AS first
    WHERE NOT EXISTS (SELECT FROM backfill_date AS own WHERE (own.dag_run_id, own.backfill_id) = (first.dag_run_id, $1))
) AS others
ORDER BY mine.pool

-- name: paces
-- Of each backfill, the runs of its last $4 dates that ended since its last change, or since the first of their ends. $2 and $3:
-- the names of the backfills in the audit log.
SELECT chosen.id, pace.runs, pace.tasks, pace.since
FROM unnest($1::bigint[], $2::text[], $3::text[]) AS chosen (id, name, former_name)
CROSS JOIN LATERAL (
    WITH ended AS (
        SELECT run.end_date AS at, date.tasks_succeeded + date.tasks_skipped + date.tasks_failed AS tasks
        FROM (SELECT * FROM backfill_date WHERE backfill_id = chosen.id ORDER BY ordinal DESC LIMIT $4) AS date
        JOIN dag_run AS run ON run.id = date.dag_run_id
        WHERE date.state IN ('success', 'failed') AND run.end_date IS NOT NULL
    ),
    changed AS MATERIALIZED (
        SELECT at FROM audit_log
        WHERE object IN (chosen.name, chosen.former_name)
          AND what IN ('changed a backfill', 'resumed a backfill', 'retried a backfill')
    ),
    since AS (SELECT greatest((SELECT min(at) FROM ended), (SELECT max(at) FROM changed)) AS at)
    SELECT count(*) AS runs, coalesce(sum(ended.tasks), 0)::bigint AS tasks, min(since.at) AS since
    FROM since
    JOIN ended ON ended.at > since.at
) AS pace
