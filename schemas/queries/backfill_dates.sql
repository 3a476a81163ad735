-- name: insert
INSERT INTO backfill_date (backfill_id, ordinal, logical_date, state, dag_run_id, reason, again_since, is_whole)
SELECT * FROM unnest(
    $1::bigint[], $2::integer[], $3::timestamptz[], $4::backfill_date_state[], $5::bigint[], $6::text[], $7::timestamptz[],
    $8::boolean[]
)

-- name: close
UPDATE backfill_date AS date
SET state = change.state,
    reason = CASE WHEN change.reason <> '' THEN change.reason ELSE date.reason END,
    tasks = change.tasks,
    tasks_succeeded = change.tasks_succeeded,
    tasks_skipped = change.tasks_skipped,
    tasks_failed = change.tasks_failed
FROM unnest(
    $1::bigint[], $2::integer[], $3::backfill_date_state[], $4::integer[], $5::integer[], $6::integer[], $7::integer[],
    $8::text[]
) AS change (backfill_id, ordinal, state, tasks, tasks_succeeded, tasks_skipped, tasks_failed, reason)
WHERE (date.backfill_id, date.ordinal) = (change.backfill_id, change.ordinal)

-- name: open
UPDATE backfill_date AS date
SET state = 'open',
    is_whole = false,
    reason = '',
    again_since = CASE
        WHEN date.is_whole OR date.reason <> '' THEN coalesce(date.again_since, change.at)
        ELSE date.again_since
    END
FROM unnest($1::bigint[], $2::integer[], $3::timestamptz[]) AS change (backfill_id, ordinal, at)
WHERE (date.backfill_id, date.ordinal) = (change.backfill_id, change.ordinal)

-- name: retry
-- The tasks of these dates are counted again once their runs have ended. A cancelled date keeps its reason, which marks it.
UPDATE backfill_date AS date
SET state = 'retry', tasks = 0, tasks_succeeded = 0, tasks_skipped = 0, tasks_failed = 0
FROM unnest($1::bigint[], $2::boolean[]) AS change (backfill_id, failed)
WHERE date.backfill_id = change.backfill_id AND (date.state = 'cancelled' OR (change.failed AND date.state = 'failed'))

-- name: rerun
UPDATE backfill_date AS date
SET state = 'retry', is_whole = true, tasks = 0, tasks_succeeded = 0, tasks_skipped = 0, tasks_failed = 0
FROM unnest($1::bigint[], $2::integer[]) AS change (backfill_id, ordinal)
WHERE (date.backfill_id, date.ordinal) = (change.backfill_id, change.ordinal)

-- name: notify
-- The dates of reopened runs are open again. If their backfill stops or has ended, the runs leave it instead: their tasks get the
-- pools and weights of their version, and open dates are cancelled. Other backfills may wait for the same run, which one of them
-- took from another.
WITH notified AS MATERIALIZED (
    SELECT
        notified.*,
        coalesce(
            backfill.stop_reason = '' AND backfill.state NOT IN ('cancelling', 'cancelled', 'success', 'failed'), false
        ) AS is_active
    FROM unnest($1::bigint[], $2::bigint[], $3::boolean[], $4::timestamptz[]) AS notified (backfill_id, dag_run_id, reopened, at)
    LEFT JOIN backfill ON backfill.id = notified.backfill_id
),
moved AS (
    UPDATE backfill_date AS date
    SET state = CASE WHEN notified.is_active THEN 'open' ELSE 'cancelled' END::backfill_date_state,
        reason = CASE WHEN notified.is_active THEN '' ELSE 'its run was cleared after the backfill had stopped' END,
        tasks = 0, tasks_succeeded = 0, tasks_skipped = 0, tasks_failed = 0
    FROM notified
    JOIN backfill_date AS before USING (backfill_id, dag_run_id)
    WHERE notified.reopened
      AND CASE WHEN notified.is_active THEN before.state IN ('success', 'failed', 'cancelled') ELSE before.state = 'open' END
      AND (date.backfill_id, date.ordinal) = (before.backfill_id, before.ordinal)
),
leaving AS (
    UPDATE dag_run
    SET backfill_id = NULL, pool = NULL, priority = 0, updates_outlets = true
    FROM notified
    JOIN dag_run AS before ON before.id = notified.dag_run_id
    WHERE dag_run.id = before.id AND notified.reopened AND NOT notified.is_active
    RETURNING dag_run.id, dag_run.version_id, before.pool, before.priority
),
own_demand AS (
    UPDATE task_instance AS task
    SET pool = CASE WHEN leaving.pool IS NULL THEN task.pool ELSE task_pool(version.spec, task.task_id) END,
        rank = rank_with(task.rank, -leaving.priority)
    FROM leaving
    JOIN dag_version AS version ON version.id = leaving.version_id
    WHERE task.dag_run_id = leaving.id AND task.state <> 'removed'
)
UPDATE backfill
SET due_at = least(backfill.due_at, waiting.at)
FROM (
    SELECT backfill_id, min(at) AS at
    FROM (
        SELECT backfill_id, at FROM notified
        UNION ALL
        SELECT date.backfill_id, notified.at
        FROM notified
        JOIN backfill_date AS date ON date.dag_run_id = notified.dag_run_id AND date.state = 'open'
    ) AS each
    GROUP BY backfill_id
) AS waiting
WHERE backfill.id = waiting.backfill_id AND backfill_is_active(backfill.state)

-- name: delete
DELETE FROM backfill_date WHERE backfill_id = ANY ($1::bigint[])

-- name: lagging
-- The backfills whose counters lag: a daemon of a former version ended or reopened a run without a notification. A date to retry
-- lags if its run had to end first, and nothing else keeps the backfill waiting.
SELECT backfill.id
FROM backfill
WHERE backfill_is_active(backfill.state) AND backfill.due_at IS NULL AND EXISTS (
    SELECT FROM backfill_date AS date JOIN dag_run AS run ON run.id = date.dag_run_id
    WHERE date.backfill_id = backfill.id AND date.state = 'open' AND run.state IN ('success', 'failed')
)
UNION
SELECT backfill.id
FROM backfill
WHERE backfill_is_active(backfill.state) AND backfill.due_at IS NULL
  AND EXISTS (
      SELECT FROM backfill_date AS date JOIN dag_run AS run ON run.id = date.dag_run_id
      WHERE date.backfill_id = backfill.id AND date.state = 'retry' AND date.is_whole
        AND run.backfill_id = backfill.id AND run.state IN ('success', 'failed')
  )
  AND NOT EXISTS (SELECT FROM dag_run AS run WHERE run.backfill_id = backfill.id AND run.state IN ('queued', 'running'))
  AND (backfill.stop_reason <> '' OR (backfill.state IN ('planned', 'running') AND NOT EXISTS (
      SELECT FROM dag
      WHERE dag_id IN (backfill.dag_id, backfill.stages ->> (nullif(backfill.stage, 0) - 1))
        AND (held_since IS NOT NULL OR is_stale OR is_paused)
  )))
UNION
SELECT run.backfill_id
FROM dag_run AS run
WHERE run.backfill_id IS NOT NULL AND run.state IN ('queued', 'running') AND NOT EXISTS (
    SELECT FROM backfill_date AS date
    WHERE (date.dag_run_id, date.backfill_id) = (run.id, run.backfill_id) AND date.state IN ('open', 'retry')
)

-- name: lagging_runs
-- The runs that ended or were reopened without a notification of their locked backfills.
SELECT date.backfill_id, run.id, false AS reopened
FROM backfill_date AS date
JOIN dag_run AS run ON run.id = date.dag_run_id
WHERE date.backfill_id = ANY ($1::bigint[]) AND run.state IN ('success', 'failed')
  AND (date.state = 'open' OR (date.state = 'retry' AND date.is_whole AND run.backfill_id = date.backfill_id))
UNION ALL
SELECT run.backfill_id, run.id, true
FROM dag_run AS run
WHERE run.backfill_id = ANY ($1::bigint[]) AND run.state IN ('queued', 'running') AND NOT EXISTS (
    SELECT FROM backfill_date AS date
    WHERE (date.dag_run_id, date.backfill_id) = (run.id, run.backfill_id) AND date.state IN ('open', 'retry')
)
