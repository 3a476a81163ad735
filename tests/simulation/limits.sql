-- Checked after each commit that occupies more: no other session runs meanwhile, so every session sees the same.
SELECT 'pool ' || pool.name || ' has ' || occupied || ' of ' || pool.slots || ' slots occupied'
FROM pool, LATERAL (
    SELECT coalesce(sum(pool_slots), 0) AS occupied FROM task_instance AS task
    WHERE task.pool = pool.name AND state IN ('queued', 'running')
) AS now
WHERE pool.slots >= 0 AND occupied > pool.slots
UNION ALL
SELECT 'the installation has ' || active || ' active tasks of ' || $1::integer
FROM (SELECT count(*) AS active FROM task_instance WHERE state IN ('queued', 'running')) AS now
WHERE $1 > 0 AND active > $1
UNION ALL
SELECT 'run ' || run.run_id || ' of ' || run.dag_id || ' has ' || active || ' of ' || run.max_active_tasks || ' active tasks'
FROM dag_run AS run, LATERAL (
    SELECT count(*) AS active FROM task_instance AS task WHERE task.dag_run_id = run.id AND state IN ('queued', 'running')
) AS now
WHERE run.state = 'running' AND active > run.max_active_tasks
UNION ALL
SELECT 'task ' || task.task_id || ' of ' || run.dag_id || ' has ' || count(*) || ' of ' || min(task.per_dag) || ' active instances'
FROM task_instance AS task JOIN dag_run AS run ON run.id = task.dag_run_id
WHERE task.state IN ('queued', 'running') AND task.per_dag IS NOT NULL
GROUP BY run.dag_id, task.task_id
HAVING count(*) > min(task.per_dag)
UNION ALL
SELECT 'DAG ' || dag.dag_id || ' has ' || found || ' of ' || allowed || ' active runs'
FROM (SELECT dag_id, count(*) AS found FROM dag_run WHERE backfill_id IS NULL AND state = 'running' GROUP BY dag_id) AS runs
JOIN dag ON dag.dag_id = runs.dag_id
JOIN dag_version AS version ON version.id = dag.version_id
CROSS JOIN LATERAL (SELECT coalesce((version.spec ->> 'max_active_runs')::integer, 16) AS allowed OFFSET 0) AS limited
WHERE found > allowed
