-- What contradicts the rules at this moment, as sentences; nothing when all is well.
SELECT 'run ' || run_id || ' is ' || state || ' with unfinished tasks'
FROM dag_run
WHERE state IN ('success', 'failed') AND EXISTS (
    SELECT FROM task_instance AS task
    WHERE task.dag_run_id = dag_run.id AND task.state IN ('none', 'scheduled', 'queued', 'running', 'up_for_retry')
)
UNION ALL
SELECT 'run ' || run_id || ' counts ' || unfinished || ' unfinished tasks, there are ' || found
FROM dag_run, LATERAL (
    SELECT count(*) AS found FROM task_instance AS task
    WHERE task.dag_run_id = dag_run.id AND task.task_index BETWEEN 0 AND 1048575
      AND task.state IN ('none', 'scheduled', 'queued', 'running', 'up_for_retry')
) AS tasks
WHERE state = 'running' AND unfinished <> found
UNION ALL
SELECT 'run ' || run_id || ' counts ' || active_tasks || ' active tasks, there are ' || found
FROM dag_run, LATERAL (
    SELECT count(*) AS found FROM task_instance AS task
    WHERE task.dag_run_id = dag_run.id AND task.state IN ('queued', 'running')
) AS tasks
WHERE active_tasks <> found
UNION ALL
SELECT 'run ' || run_id || ' has nothing left to do and is running still'
FROM dag_run
WHERE state = 'running' AND unfinished = 0 AND NOT EXISTS (SELECT FROM run_to_reconsider WHERE dag_run_id = dag_run.id)
UNION ALL
SELECT 'run ' || run_id || ' is numbered ' || state_seq || ' and ' || task_seq || ', its journal has ' || moves || ' to ' || last
FROM dag_run, LATERAL (SELECT count(*) AS moves, max(seq) AS last FROM run_state_log AS log WHERE log.dag_run_id = dag_run.id) AS journal
WHERE state_seq <> moves OR state_seq <> last
UNION ALL
SELECT 'task ' || task.task_id || ' of run ' || run.run_id || ' is ' || task.state || ' with ' || found || ' open attempts'
FROM task_instance AS task
JOIN dag_run AS run ON run.id = task.dag_run_id, LATERAL (
    SELECT count(*) AS found FROM submission
    WHERE (submission.dag_run_id, submission.task_index) = (task.dag_run_id, task.task_index) AND submission.ended_at IS NULL
      AND (submission.desired_state = 'run' OR task.state IN ('queued', 'running'))
) AS attempts
WHERE found <> (task.state IN ('queued', 'running'))::integer
UNION ALL
SELECT 'task ' || task.task_id || ' of run ' || run.run_id || ' waits for ' || task.awaited || ' and counts ' ||
    concat_ws(' ', task.success, task.failed, task.skipped, task.upstream_failed) || ', there are ' ||
    concat_ws(' ', now.success, now.failed, now.skipped, now.upstream_failed) || ' of ' || now.awaited
FROM task_instance AS task
JOIN dag_run AS run ON run.id = task.dag_run_id AND run.state = 'running'
JOIN dag_version AS version ON version.id = run.version_id, LATERAL (
    SELECT
        count(*) FILTER (WHERE before.state <> 'removed') AS awaited,
        count(*) FILTER (WHERE before.state = 'success') AS success,
        count(*) FILTER (WHERE before.state = 'failed') AS failed,
        count(*) FILTER (WHERE before.state = 'skipped') AS skipped,
        count(*) FILTER (WHERE before.state = 'upstream_failed') AS upstream_failed
    FROM task_instance AS before
    WHERE before.dag_run_id = task.dag_run_id AND before.task_index BETWEEN 0 AND 1048575
      AND version.spec -> 'tasks' -> task.task_index -> 'upstream' ? before.task_id
) AS now
WHERE task.state = 'none' AND task.elements = 0 AND task.task_index BETWEEN 0 AND 1048575
  AND (task.awaited, task.success, task.failed, task.skipped, task.upstream_failed)
      <> (now.awaited, now.success, now.failed, now.skipped, now.upstream_failed)
UNION ALL
SELECT 'DAG ' || dag_id || ' has ' || found || ' running runs'
FROM dag, LATERAL (SELECT count(*) AS found FROM dag_run AS run WHERE run.dag_id = dag.dag_id AND run.backfill_id IS NULL AND run.state = 'running') AS runs
JOIN LATERAL (SELECT 1) AS one ON true
WHERE found > (SELECT coalesce((spec ->> 'max_active_runs')::integer, 16) FROM dag_version WHERE id = dag.version_id)
UNION ALL
SELECT what || ' has ' || found || ' of ' || allowed FROM model_overrun
