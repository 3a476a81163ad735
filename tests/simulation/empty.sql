-- Everything that a schedule leaves, but for the DAGs: filed once, set back here. Rows are deleted and tables not truncated, so
-- that what Postgres has planned for the connections stays good.
CREATE FUNCTION begin_schedule(at_us bigint, slots integer[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM setval('simulated_time', at_us);
    DELETE FROM job;
    DELETE FROM event_dedupe;
    DELETE FROM dataset_event;
    DELETE FROM dataset_event_arrival;
    DELETE FROM dataset_dag_run_queue;
    DELETE FROM dagrun_dataset_event;
    DELETE FROM discarded_dataset_event;
    DELETE FROM dag_run;
    DELETE FROM backfill_date;
    DELETE FROM backfill_stage;
    DELETE FROM backfill;
    DELETE FROM run_state_log;
    DELETE FROM run_to_reconsider;
    DELETE FROM deferred_dag;
    DELETE FROM deferred_end;
    DELETE FROM ignored_field;
    DELETE FROM task_instance;
    DELETE FROM task_result;
    DELETE FROM submission;
    DELETE FROM restored_end;
    DELETE FROM outbox;
    DELETE FROM ignored_finish;
    DELETE FROM dead_letter;
    DELETE FROM schedule_note;
    DELETE FROM deadline;
    DELETE FROM notification;
    UPDATE lease SET owner = NULL, epoch = 0, next_offset = CASE kind WHEN 'partition' THEN 0 END,
        halted = false;
    UPDATE dag SET is_paused = false, paused_at = NULL, failed_runs = 0, last_source = NULL, due_at = NULL, catchup_until = NULL, dataset_run_at = NULL;
    UPDATE pool SET slots = given.slots, admitted = 0
    FROM unnest(ARRAY['default_pool', 'narrow'], begin_schedule.slots) AS given (name, slots) WHERE pool.name = given.name;
    PERFORM setval(sequence::regclass, 1, false)
    FROM unnest(ARRAY['dag_run_id_seq', 'outbox_id_seq', 'dataset_event_id_seq', 'deadline_id_seq']) AS sequence;
END
$$;
