-- The task that produced a dataset event; NULL for events of other programs. A mapped instance has a map index.
ALTER TABLE dataset_event
    ADD COLUMN source_dag_id text,
    ADD COLUMN source_run_id text,
    ADD COLUMN source_task_id text,
    ADD COLUMN source_map_index integer;

-- The function names the columns that a month keeps. All else of it stays as the migrations before have left it.
DO $$
DECLARE
    before text := pg_get_functiondef('retire_ledger_month'::regproc);
    kept text := 'received_at, arrival_id';
BEGIN
    IF strpos(before, kept) = 0 THEN
        RAISE EXCEPTION 'retire_ledger_month does not name the columns %', kept;
    END IF;
    EXECUTE replace(before, kept, kept || ', source_dag_id, source_run_id, source_task_id, source_map_index');
END
$$;

-- Why a task instance has its state, also where it had no attempt; and the end of the log of an attempt that did not succeed.
ALTER TABLE task_instance ADD COLUMN reason text;
ALTER TABLE submission ADD COLUMN log_path text, ADD COLUMN log_tail text;
