-- The number of tasks of a run, and of those that ended in these states.
CREATE FUNCTION run_task_counts(of_run bigint)
RETURNS TABLE (tasks integer, tasks_succeeded integer, tasks_skipped integer, tasks_failed integer) LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT
        count(*)::integer,
        count(*) FILTER (WHERE state = 'success')::integer,
        count(*) FILTER (WHERE state = 'skipped')::integer,
        count(*) FILTER (WHERE state IN ('failed', 'upstream_failed'))::integer
    FROM task_instance
    WHERE dag_run_id = of_run AND task_index >= 0 AND state <> 'removed'
$$;
