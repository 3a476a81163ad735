-- Limits, checked at every commit that changes what occupies something; and a journal of what waited for what.
--
-- Two transactions of which neither sees the other's rows may each stay in a limit, and both together exceed it. So the check
-- comes when a transaction has done everything but its end (the constraint trigger is deferred), under a lock that it keeps until
-- it has ended. Postgres makes a commit visible before it lets the locks of it go, and each statement of a function looks anew in
-- READ COMMITTED: the session that gets the lock next counts what was committed before it and what it did itself, and so the second of the
-- two sees both. The lock hides no race: by then each of them has read, decided and written all that it ever will, and none
-- waits in there for anything but the lock. It also puts commits into one order, `seq`, in which they become visible: whatever a
-- snapshot sees is all commits up to some number.
--
-- Violations are written down and not raised: the daemons shall not notice.

CREATE TABLE limits_setting (parallelism integer NOT NULL);

-- What the files of the DAGs say, and not what the daemons made of it.
CREATE TABLE limits_dag (
    version_id bigint PRIMARY KEY, dag_id text NOT NULL, max_active_runs integer NOT NULL, max_active_tasks integer NOT NULL
);
CREATE TABLE limits_task (
    version_id bigint, node integer, task_id text NOT NULL, pool text NOT NULL, slots integer NOT NULL, per_dag integer,
    per_run integer, PRIMARY KEY (version_id, node)
);

CREATE FUNCTION limits_read_version() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO limits_dag VALUES (
        NEW.id, NEW.dag_id, coalesce((NEW.spec ->> 'max_active_runs')::integer, 16),
        coalesce((NEW.spec ->> 'max_active_tasks')::integer, 16)
    );
    INSERT INTO limits_task
    SELECT
        NEW.id, place - 1, task ->> 'task_id', coalesce(task ->> 'pool', 'default_pool'),
        coalesce((task ->> 'pool_slots')::integer, 1), (task ->> 'max_active_per_dag')::integer,
        (task ->> 'max_active_per_run')::integer
    FROM jsonb_array_elements(NEW.spec -> 'tasks') WITH ORDINALITY AS tasks (task, place);
    RETURN NULL;
END $$;
CREATE TRIGGER limits_read_version AFTER INSERT ON dag_version FOR EACH ROW EXECUTE FUNCTION limits_read_version();

-- Rows of transactions that are rolled back disappear with them.
CREATE TABLE limits_change (xid bigint PRIMARY KEY DEFAULT pg_current_xact_id()::text::bigint);
CREATE SEQUENCE limits_seq;
CREATE TABLE limits_commit (
    seq bigint PRIMARY KEY DEFAULT nextval('limits_seq'),
    xid bigint NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Up to which commit an admission saw its queue at least, and when; it says so itself (`watch.py`).
    looked bigint DEFAULT nullif(current_setting('limits.looked', true), '')::bigint,
    looked_at timestamptz DEFAULT nullif(current_setting('limits.looked_at', true), '')::timestamptz
);
CREATE TABLE limits_task_move (
    xid bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint,
    dag_run_id bigint NOT NULL, task_index integer NOT NULL, rank integer NOT NULL, order_at timestamptz NOT NULL,
    scheduled_at timestamptz, was task_state, state task_state NOT NULL
);
CREATE TABLE limits_run_move (
    xid bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint,
    dag_run_id bigint NOT NULL, dag_id text NOT NULL, state run_state NOT NULL
);
CREATE TABLE limits_pool_change (
    xid bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint, name text NOT NULL, slots integer NOT NULL, admitted bigint NOT NULL
);
CREATE TABLE limits_violation (
    xid bigint NOT NULL, rule text NOT NULL, of text NOT NULL, found integer NOT NULL, allowed integer NOT NULL, changed jsonb NOT NULL
);
CREATE INDEX ON limits_task_move (xid);
CREATE INDEX ON limits_run_move (xid);
CREATE INDEX ON limits_pool_change (xid);

CREATE FUNCTION limits_see_new_tasks() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO limits_task_move (dag_run_id, task_index, rank, order_at, scheduled_at, was, state)
    SELECT dag_run_id, task_index, rank, order_at, scheduled_at, NULL, state FROM after WHERE state <> 'none';
    IF FOUND THEN
        INSERT INTO limits_change DEFAULT VALUES ON CONFLICT DO NOTHING;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER limits_see_new_tasks AFTER INSERT ON task_instance REFERENCING NEW TABLE AS after
FOR EACH STATEMENT EXECUTE FUNCTION limits_see_new_tasks();

CREATE FUNCTION limits_see_tasks() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO limits_task_move (dag_run_id, task_index, rank, order_at, scheduled_at, was, state)
    SELECT dag_run_id, task_index, after.rank, after.order_at, after.scheduled_at, before.state, after.state
    FROM after JOIN before USING (dag_run_id, task_index)
    WHERE after.state <> before.state;
    IF FOUND THEN
        INSERT INTO limits_change DEFAULT VALUES ON CONFLICT DO NOTHING;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER limits_see_tasks AFTER UPDATE ON task_instance REFERENCING OLD TABLE AS before NEW TABLE AS after
FOR EACH STATEMENT EXECUTE FUNCTION limits_see_tasks();

CREATE FUNCTION limits_see_run() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO limits_run_move (dag_run_id, dag_id, state) VALUES (NEW.id, NEW.dag_id, NEW.state);
    INSERT INTO limits_change DEFAULT VALUES ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
CREATE TRIGGER limits_see_new_run AFTER INSERT ON dag_run FOR EACH ROW EXECUTE FUNCTION limits_see_run();
CREATE TRIGGER limits_see_run AFTER UPDATE ON dag_run
FOR EACH ROW WHEN (NEW.state <> OLD.state) EXECUTE FUNCTION limits_see_run();

CREATE FUNCTION limits_see_pool() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO limits_pool_change (name, slots, admitted) VALUES (NEW.name, NEW.slots, NEW.admitted);
    INSERT INTO limits_change DEFAULT VALUES ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
CREATE TRIGGER limits_see_pool AFTER INSERT OR UPDATE ON pool FOR EACH ROW EXECUTE FUNCTION limits_see_pool();

-- To be over a limit is allowed, since the limit may have been lowered; to add to it is not.
CREATE FUNCTION limits_check() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    has_tasks boolean;
    has_runs boolean;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('limits'));
    INSERT INTO limits_commit (xid) VALUES (NEW.xid);
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        INSERT INTO limits_violation VALUES (NEW.xid, 'isolation', current_setting('transaction_isolation'), 0, 0, '[]');
    END IF;
    SELECT EXISTS (SELECT FROM limits_task_move WHERE xid = NEW.xid AND state = 'queued') INTO has_tasks;
    SELECT EXISTS (SELECT FROM limits_run_move WHERE xid = NEW.xid AND state = 'running') INTO has_runs;
    IF has_tasks THEN
        WITH active AS MATERIALIZED (
            SELECT task.dag_run_id, task.task_index, run.dag_id, said.task_id, said.pool, said.slots, said.per_dag, said.per_run,
                whole.max_active_tasks, EXISTS (
                    SELECT FROM limits_task_move AS move
                    WHERE move.xid = NEW.xid AND move.state = 'queued'
                      AND (move.dag_run_id, move.task_index) = (task.dag_run_id, task.task_index)
                ) AS is_new
            FROM task_instance AS task
            JOIN dag_run AS run ON run.id = task.dag_run_id
            JOIN limits_dag AS whole USING (version_id)
            JOIN limits_task AS said ON said.version_id = run.version_id AND said.node
                = CASE WHEN task.task_index < 1048576 THEN task.task_index ELSE (task.task_index - 1048576) / 16384 END
            WHERE task.state IN ('queued', 'running')
        )
        INSERT INTO limits_violation
        SELECT NEW.xid, rule, of, counted, allowed, (
            SELECT jsonb_agg(jsonb_build_array(dag_run_id, task_index, was, state)) FROM limits_task_move WHERE xid = NEW.xid
        )
        FROM (
            SELECT 'slots of a pool', pool.name, sum(active.slots)::integer, pool.slots
            FROM active JOIN pool ON pool.name = active.pool
            WHERE pool.slots >= 0 GROUP BY pool.name, pool.slots HAVING bool_or(is_new)
            UNION ALL
            SELECT 'parallelism', 'the installation', count(*), (SELECT parallelism FROM limits_setting) FROM active
            UNION ALL
            SELECT 'max_active_tasks', 'run ' || dag_run_id, count(*), min(max_active_tasks)
            FROM active GROUP BY dag_run_id HAVING bool_or(is_new)
            UNION ALL
            SELECT 'max_active_tis_per_dagrun', task_id || ' of run ' || dag_run_id, count(*), min(per_run)
            FROM active WHERE per_run IS NOT NULL GROUP BY dag_run_id, task_id HAVING bool_or(is_new)
            UNION ALL
            SELECT 'max_active_tis_per_dag', dag_id || '.' || task_id, count(*), min(per_dag)
            FROM active WHERE per_dag IS NOT NULL GROUP BY dag_id, task_id HAVING bool_or(is_new)
        ) AS checks (rule, of, counted, allowed)
        WHERE counted > allowed;
    END IF;
    -- Admissions go by this count.
    INSERT INTO limits_violation
    SELECT NEW.xid, 'count of active tasks', 'run ' || run.id, run.active_tasks, now.active, '[]'
    FROM (SELECT DISTINCT dag_run_id FROM limits_task_move WHERE xid = NEW.xid) AS moved
    JOIN dag_run AS run ON run.id = moved.dag_run_id
    CROSS JOIN LATERAL (
        SELECT count(*) AS active FROM task_instance AS task WHERE task.dag_run_id = run.id AND task.state IN ('queued', 'running')
    ) AS now
    WHERE run.active_tasks <> now.active;
    IF has_runs THEN
        INSERT INTO limits_violation
        SELECT NEW.xid, 'max_active_runs', started.dag_id, count(*), whole.max_active_runs, '[]'
        FROM (SELECT DISTINCT dag_id FROM limits_run_move WHERE xid = NEW.xid AND state = 'running') AS started
        JOIN dag USING (dag_id)
        JOIN limits_dag AS whole USING (version_id)
        JOIN dag_run AS run ON run.dag_id = started.dag_id AND run.state = 'running'
        GROUP BY started.dag_id, whole.max_active_runs
        HAVING count(*) > whole.max_active_runs;
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER limits_check AFTER INSERT ON limits_change DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION limits_check();

-- The pools that are there.
INSERT INTO limits_pool_change (xid, name, slots, admitted) SELECT 0, name, slots, admitted FROM pool;
