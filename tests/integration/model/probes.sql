-- Every move of runs and tasks, as it was committed.
CREATE TABLE model_run_move (dag_run_id bigint NOT NULL, before text, after text NOT NULL);
CREATE TABLE model_task_move (dag_run_id bigint NOT NULL, task_index integer NOT NULL, before text NOT NULL, after text NOT NULL);

CREATE FUNCTION model_see_run() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO model_run_move VALUES (NEW.id, CASE WHEN TG_OP = 'UPDATE' THEN OLD.state::text END, NEW.state::text);
    RETURN NULL;
END $$;
CREATE TRIGGER model_see_new_run AFTER INSERT ON dag_run FOR EACH ROW EXECUTE FUNCTION model_see_run();
CREATE TRIGGER model_see_run AFTER UPDATE ON dag_run FOR EACH ROW WHEN (OLD.state <> NEW.state) EXECUTE FUNCTION model_see_run();

CREATE FUNCTION model_see_task() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO model_task_move VALUES (NEW.dag_run_id, NEW.task_index, OLD.state::text, NEW.state::text);
    RETURN NULL;
END $$;
CREATE TRIGGER model_see_task AFTER UPDATE ON task_instance
FOR EACH ROW WHEN (OLD.state <> NEW.state) EXECUTE FUNCTION model_see_task();

-- Checked when a transaction ends: the states in between are invisible.
CREATE TABLE model_overrun (what text NOT NULL, found integer NOT NULL, allowed integer NOT NULL);

CREATE FUNCTION model_watch_pools() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO model_overrun
    SELECT 'pool ' || pool.name, occupied, pool.slots
    FROM pool, LATERAL (
        SELECT coalesce(sum(pool_slots), 0) AS occupied FROM task_instance AS task
        WHERE task.pool = pool.name AND state IN ('queued', 'running')
    ) AS now
    WHERE pool.name = NEW.pool AND pool.slots >= 0 AND occupied > pool.slots;
    INSERT INTO model_overrun
    SELECT 'run ' || run.run_id, active, run.max_active_tasks
    FROM dag_run AS run, LATERAL (
        SELECT count(*) AS active FROM task_instance AS task WHERE task.dag_run_id = run.id AND state IN ('queued', 'running')
    ) AS now
    WHERE run.id = NEW.dag_run_id AND active > run.max_active_tasks;
    INSERT INTO model_overrun
    SELECT 'task ' || NEW.task_id || ' of its run', active, NEW.per_run
    FROM (
        SELECT count(*) AS active FROM task_instance AS task
        WHERE task.dag_run_id = NEW.dag_run_id AND task.task_id = NEW.task_id AND state IN ('queued', 'running')
    ) AS now
    WHERE active > NEW.per_run;
    INSERT INTO model_overrun
    SELECT 'task ' || NEW.task_id || ' of its DAG', active, NEW.per_dag
    FROM (
        SELECT count(*) AS active FROM task_instance AS task JOIN dag_run AS run ON run.id = task.dag_run_id
        WHERE run.dag_id = (SELECT dag_id FROM dag_run WHERE id = NEW.dag_run_id)
          AND task.task_id = NEW.task_id AND task.state IN ('queued', 'running')
    ) AS now
    WHERE active > NEW.per_dag;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER model_watch_pools AFTER UPDATE ON task_instance DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW WHEN (NEW.state = 'queued' AND OLD.state <> 'queued') EXECUTE FUNCTION model_watch_pools();

CREATE FUNCTION model_count_elements() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO model_overrun
    SELECT 'mapped task ' || NEW.task_id, instances, elements
    FROM dag_run AS run
    JOIN dag_version AS version ON version.id = run.version_id
    CROSS JOIN jsonb_array_elements(version.spec -> 'tasks') WITH ORDINALITY AS over (spec, number)
    JOIN task_result AS result ON result.dag_run_id = run.id AND result.task_index = over.number - 1
    CROSS JOIN LATERAL (SELECT jsonb_array_length(result.value) AS elements) AS list
    CROSS JOIN LATERAL (
        SELECT count(*) AS instances FROM task_instance AS instance
        WHERE instance.dag_run_id = run.id AND (instance.task_index - 1048576) >> 14 = NEW.task_index AND instance.state <> 'removed'
    ) AS now
    WHERE run.id = NEW.dag_run_id AND over.spec ->> 'task_id' = version.spec -> 'tasks' -> NEW.task_index ->> 'over'
      AND instances <> elements;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER model_count_elements AFTER UPDATE ON task_instance DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW WHEN (OLD.elements = 0 AND NEW.elements > 0) EXECUTE FUNCTION model_count_elements();
