-- Time, trigger rules, pools and limits, and what a run needs to be stopped, cleared and run again.

ALTER TYPE run_type ADD VALUE 'scheduled';
ALTER TYPE run_type ADD VALUE 'backfill';
ALTER TYPE task_state ADD VALUE 'skipped';
ALTER TYPE task_state ADD VALUE 'removed';

-- `timed_since` is when the DAG got a timetable, `last_*` the last tick that this has come to, `due_at` when the clock is to look at the DAG again: never, while
-- something else will. Each clock shard is one daemon's.
ALTER TABLE dag
    ADD COLUMN last_logical_date timestamptz,
    ADD COLUMN last_interval_start timestamptz,
    ADD COLUMN last_interval_end timestamptz,
    ADD COLUMN due_at timestamptz,
    ADD COLUMN timed_since timestamptz,
    ADD COLUMN failed_runs integer NOT NULL DEFAULT 0,
    ADD COLUMN clock_shard smallint NOT NULL GENERATED ALWAYS AS (abs(hashtext(dag_id) % 16)) STORED;
CREATE INDEX dag_due ON dag (clock_shard, due_at) WHERE due_at IS NOT NULL;

-- Runs of one DAG follow each other by `order_at`. A moment of a timetable has one run, whoever makes it.
ALTER TABLE dag_run
    ADD COLUMN logical_date timestamptz,
    ADD COLUMN data_interval_start timestamptz,
    ADD COLUMN data_interval_end timestamptz,
    ADD COLUMN order_at timestamptz GENERATED ALWAYS AS (coalesce(logical_date, run_after)) STORED,
    ADD COLUMN active_tasks integer NOT NULL DEFAULT 0,
    ADD COLUMN max_active_tasks integer NOT NULL DEFAULT 16,
    ADD COLUMN times_out_at timestamptz;
CREATE UNIQUE INDEX dag_run_logical_date ON dag_run (dag_id, logical_date) WHERE logical_date IS NOT NULL;
-- Partial, so that nobody takes it who looks for something else.
CREATE INDEX dag_run_order ON dag_run (dag_id, order_at, id) WHERE order_at IS NOT NULL;
CREATE INDEX dag_run_times_out ON dag_run ((id % 16), times_out_at) WHERE state = 'running' AND times_out_at IS NOT NULL;
DROP INDEX dag_run_active;
CREATE INDEX dag_run_active ON dag_run (dag_id, state, order_at, id) WHERE state IN ('queued', 'running');

-- `awaited` is how many instances a task waits for; `success`, `failed`, `skipped` and `upstream_failed` are how many of those
-- ended so. Lower ranks leave the queue of their pool first.
ALTER TABLE task_instance RENAME COLUMN upstream_success TO success;
ALTER TABLE task_instance RENAME COLUMN upstream_failed TO failed;
ALTER TABLE task_instance
    ADD COLUMN max_tries integer NOT NULL DEFAULT 1,
    ADD COLUMN awaited integer NOT NULL DEFAULT 0,
    ADD COLUMN skipped integer NOT NULL DEFAULT 0,
    ADD COLUMN upstream_failed integer NOT NULL DEFAULT 0,
    ADD COLUMN waits_for_past boolean NOT NULL DEFAULT false,
    ADD COLUMN elements integer NOT NULL DEFAULT 0,
    ADD COLUMN pool_slots integer NOT NULL DEFAULT 1,
    ADD COLUMN rank integer NOT NULL DEFAULT 0,
    ADD COLUMN order_at timestamptz NOT NULL DEFAULT now(),
    ADD COLUMN per_dag integer,
    ADD COLUMN per_run integer,
    ADD COLUMN scheduled_at timestamptz;

UPDATE task_instance AS task
SET awaited = jsonb_array_length(coalesce(version.spec -> 'tasks' -> task.task_index -> 'upstream', '[]')),
    max_tries = coalesce((version.spec -> 'tasks' -> task.task_index ->> 'retries')::integer, 0) + 1,
    order_at = run.order_at,
    scheduled_at = CASE WHEN task.state = 'scheduled' THEN now() END
FROM dag_run AS run
JOIN dag_version AS version ON version.id = run.version_id
WHERE run.id = task.dag_run_id AND run.state = 'running';

UPDATE dag_run AS run
SET active_tasks = (SELECT count(*) FROM task_instance WHERE dag_run_id = run.id AND state IN ('queued', 'running'))
WHERE run.state = 'running';

DROP INDEX task_instance_ready, task_instance_retry, task_instance_occupying;
CREATE INDEX task_instance_ready ON task_instance (pool, rank, order_at, dag_run_id, task_index) WHERE state = 'scheduled';
CREATE INDEX task_instance_retry ON task_instance ((dag_run_id % 16), next_try_at) WHERE state = 'up_for_retry';
CREATE INDEX task_instance_oldest ON task_instance (pool, scheduled_at) WHERE state = 'scheduled';
CREATE INDEX task_instance_occupying ON task_instance (pool) INCLUDE (pool_slots) WHERE state IN ('queued', 'running');
CREATE INDEX task_instance_limited ON task_instance (task_id, dag_run_id)
    WHERE state IN ('queued', 'running') AND (per_dag IS NOT NULL OR per_run IS NOT NULL);

-- What tasks returned, for those after them.
CREATE TABLE task_result (
    dag_run_id bigint NOT NULL,
    task_index integer NOT NULL,
    value jsonb NOT NULL,
    PRIMARY KEY (dag_run_id, task_index)
);

-- Runs to be looked at as a whole, and with a reason those that are to end.
CREATE TABLE run_to_reconsider (
    dag_run_id bigint PRIMARY KEY,
    stop_reason text,
    created_at timestamptz NOT NULL DEFAULT now()
);

-- How many tasks were given slots while others waited for long.
ALTER TABLE pool ADD COLUMN admitted bigint NOT NULL DEFAULT 0;

ALTER TABLE submission ADD COLUMN times_out_at timestamptz, ADD COLUMN kill_reason text;
CREATE INDEX submission_times_out ON submission ((dag_run_id % 16), times_out_at)
    WHERE state = 'accepted' AND desired_state = 'run' AND times_out_at IS NOT NULL;
