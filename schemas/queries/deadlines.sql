-- name: insert_deadlines
INSERT INTO deadline (dag_run_id, task_id, name, due_at)
SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::timestamptz[])

-- name: meet_deadlines
-- A deadline that was due earlier was missed: the clock records it. `coalesce` keeps the planner off the index of open deadlines.
UPDATE deadline
SET met_at = ended.at
FROM unnest($1::bigint[], $2::text[], $3::timestamptz[]) AS ended (dag_run_id, task_id, at)
WHERE deadline.dag_run_id = ended.dag_run_id
  AND (ended.task_id IS NULL OR deadline.task_id = ended.task_id)
  AND deadline.due_at >= ended.at
  AND coalesce(deadline.met_at, deadline.missed_at) IS NULL

-- name: miss_deadlines
UPDATE deadline
SET missed_seq = change.missed_seq, missed_at = change.missed_at
FROM unnest($1::bigint[], $2::integer[], $3::timestamptz[]) AS change (id, missed_seq, missed_at)
WHERE deadline.id = change.id

-- name: lock_dags
-- The DAGs of the queued runs of these deadlines. Locked DAGs are skipped. CASE: planned while the tables are empty, a
-- condition would later read the whole queue.
SELECT dag_id
FROM dag
WHERE dag_id = ANY (ARRAY(
    SELECT CASE WHEN run.state = 'queued' THEN run.dag_id END
    FROM dag_run AS run
    WHERE run.id IN (SELECT dag_run_id FROM deadline WHERE id = ANY ($1::bigint[]) AND coalesce(met_at, missed_at) IS NULL)
))
ORDER BY dag_id
FOR NO KEY UPDATE SKIP LOCKED

-- name: lock_runs
-- The runs of these deadlines; of queued runs, those of these DAGs. Locked runs are skipped.
SELECT run.id
FROM dag_run AS run
WHERE run.id IN (SELECT dag_run_id FROM deadline WHERE id = ANY ($1::bigint[]) AND coalesce(met_at, missed_at) IS NULL)
  AND (run.state <> 'queued' OR run.dag_id = ANY ($2::text[]))
ORDER BY run.id
FOR NO KEY UPDATE OF run SKIP LOCKED

-- name: lock_due
SELECT id, dag_run_id, task_id, name, due_at
FROM deadline
WHERE id = ANY ($1::bigint[]) AND dag_run_id = ANY ($2::bigint[]) AND due_at <= $3
  AND coalesce(met_at, missed_at) IS NULL
ORDER BY due_at, id
FOR UPDATE SKIP LOCKED

-- name: last_of_dag
-- The newest deadlines of a DAG among the last 10,000 of all DAGs. OFFSET keeps the planner from comparing all of these with all
-- runs of the DAG.
SELECT deadline.id
FROM (
    SELECT id, dag_run_id, missed_at FROM deadline WHERE ($4::bigint IS NULL OR id < $4) ORDER BY id DESC LIMIT 10000
) AS deadline
CROSS JOIN LATERAL (SELECT dag_id FROM dag_run WHERE id = deadline.dag_run_id OFFSET 0) AS run
WHERE run.dag_id = $1 AND (NOT $2::boolean OR deadline.missed_at IS NOT NULL)
ORDER BY deadline.id DESC
LIMIT $3

-- name: of_dag
-- The newest deadlines of a DAG, by all of its runs. OFFSET keeps the planner from the index of all deadlines, in which those of
-- the DAG may be few.
SELECT deadline.id
FROM dag_run AS run
CROSS JOIN LATERAL (
    SELECT id FROM deadline
    WHERE dag_run_id = run.id AND (NOT $2::boolean OR missed_at IS NOT NULL) AND ($4::bigint IS NULL OR id < $4)
    OFFSET 0
) AS deadline
WHERE run.dag_id = $1
ORDER BY deadline.id DESC
LIMIT $3

-- name: missed
-- Of the last $3 deadlines that were missed within $1 seconds: by DAG, task and deadline the last run, and how many there are.
SELECT
    missed.dag_id, missed.task_id, missed.name, count(*) AS runs,
    (array_agg(missed.run_id ORDER BY missed.missed_at DESC, missed.id DESC))[1] AS run_id,
    (array_agg(missed.due_at ORDER BY missed.missed_at DESC, missed.id DESC))[1] AS due_at
FROM (
    SELECT run.dag_id, run.run_id, deadline.id, deadline.task_id, deadline.name, deadline.due_at, deadline.missed_at
    FROM deadline
    JOIN dag_run AS run ON run.id = deadline.dag_run_id
    WHERE deadline.missed_at > now() - make_interval(secs => $1)
    ORDER BY deadline.missed_at DESC, deadline.id DESC
    LIMIT $3
) AS missed
GROUP BY missed.dag_id, missed.task_id, missed.name
ORDER BY max(missed.missed_at) DESC, missed.dag_id, missed.task_id, missed.name
LIMIT $2

-- name: list_deadlines
SELECT
    deadline.id, run.dag_id, run.run_id, deadline.task_id, deadline.name,
    CASE WHEN missed_at IS NOT NULL THEN 'missed' WHEN met_at IS NOT NULL THEN 'met' ELSE 'pending' END AS state,
    deadline.due_at, deadline.met_at, deadline.missed_at
FROM deadline
JOIN dag_run AS run ON run.id = deadline.dag_run_id
WHERE ($1::text IS NULL OR run.dag_id = $1)
  AND ($2::text IS NULL OR run.run_id = $2)
  AND (NOT $3::boolean OR deadline.missed_at IS NOT NULL)
  AND ($5::bigint IS NULL OR deadline.id < $5)
  AND ($6::bigint[] IS NULL OR deadline.id = ANY ($6))
ORDER BY deadline.id DESC
LIMIT $4
