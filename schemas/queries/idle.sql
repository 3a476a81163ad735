-- name: outstanding_work
-- Work for daemons. Paused and held DAGs, queued runs of stale DAGs and of paused backfills, and runs whose tasks wait for the
-- previous run wait for a user. So do queued runs of a DAG with such a run: they start when a run ends.
WITH waiting AS MATERIALIZED (
    SELECT id, dag_id FROM dag_run
    WHERE state = 'running' AND coalesce(times_out_at > $1, true) AND waits_for_past(id)
)
SELECT
    (
        SELECT count(*) FROM dag_run AS run JOIN dag USING (dag_id)
        WHERE NOT dag.is_stopped
          AND (
              (run.state = 'running' AND run.id NOT IN (SELECT id FROM waiting))
              OR (
                  run.state = 'queued' AND run.run_after <= $1 AND NOT dag.is_stale
                  AND run.dag_id NOT IN (SELECT dag_id FROM waiting)
                  AND NOT coalesce((SELECT backfill.state = 'paused' FROM backfill WHERE backfill.id = run.backfill_id), false)
              )
          )
    ) AS runs,
    (SELECT count(*) FROM run_to_reconsider WHERE dag_run_id NOT IN (SELECT id FROM held_run)) AS reconsiderations,
    (SELECT count(*) FROM open_attempt WHERE dag_run_id NOT IN (SELECT id FROM held_run)) AS attempts,
    (SELECT count(*) FROM dag WHERE due_at <= $1 AND held_since IS NULL) AS dags,
    (
        SELECT count(*) FROM backfill
        WHERE backfill.due_at <= $1 AND backfill_is_active(backfill.state)
          AND (backfill.state = 'cancelling' OR NOT EXISTS (
              SELECT FROM dag WHERE dag.dag_id = backfill.dag_id AND held_since IS NOT NULL
          ))
    ) AS backfills,
    (SELECT count(*) FROM deadline
        WHERE due_at <= $1 AND met_at IS NULL AND missed_at IS NULL AND dag_run_id NOT IN (SELECT id FROM held_run)
    ) AS deadlines,
    (SELECT count(*) FROM notification WHERE state IN ('pending', 'sending')) AS notifications,
    (SELECT count(*) FROM outbox) AS outbox

-- name: held_dags
SELECT dag_id FROM dag WHERE held_since IS NOT NULL ORDER BY dag_id LIMIT 100

-- name: positions
SELECT key, next_offset FROM lease WHERE kind = 'partition'

-- name: parsed_in_vain
SELECT path FROM dag_file
WHERE digest = $1 AND parsed_at > (SELECT started_at FROM job WHERE id = $2)
