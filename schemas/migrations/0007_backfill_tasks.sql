-- The number of tasks of a run, and how many of them ended in these states.
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

-- Whether a run is of a DAG to which the cascade of its backfill comes later. A run that was deleted is not.
CREATE FUNCTION is_of_later_stage(of_backfill bigint, of_run bigint) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE RETURN EXISTS (
    SELECT FROM backfill
    CROSS JOIN jsonb_array_elements_text(backfill.stages) WITH ORDINALITY AS later (dag_id, number)
    JOIN dag_run ON dag_run.id = of_run AND dag_run.dag_id = later.dag_id
    WHERE backfill.id = of_backfill AND later.number > backfill.stage
);
