-- A hundred DAGs after a long life: almost all of it is over.
SET synchronous_commit = off;
ALTER TABLE note SET UNLOGGED;
ALTER TABLE dag_run SET UNLOGGED;
ALTER TABLE task_instance SET UNLOGGED;
ALTER TABLE submission SET UNLOGGED;
ALTER TABLE deadline SET UNLOGGED;
ALTER TABLE notification SET UNLOGGED;

SELECT make_ledger_month(month, month + 1) FROM generate_series(2606, 2611) AS month;
SELECT begin_ledger_month(2611);
SELECT retire_ledger_month(0, 2001, now(), 0);

INSERT INTO dag_file (path, digest, parse_duration_s) VALUES ('dags.py', 'd', 0);

INSERT INTO dag_version (dag_id, number, spec, path, digest, source)
SELECT 'dag_' || n, 1, jsonb_build_object('dag_id', 'dag_' || n), 'dags.py', 'd', '' FROM generate_series(1, 100) AS n;

INSERT INTO dag (dag_id, path, version_id) SELECT dag_id, path, id FROM dag_version;

INSERT INTO dataset (uri) SELECT 's://' || n FROM generate_series(1, 200) AS n;

INSERT INTO dag_schedule_dataset_reference (dataset_id, dag_id)
SELECT n, 'dag_' || (n + 1) / 2 FROM generate_series(1, 200) AS n;

-- The numbers of events in their month go on from month to month: they are those of the runs that took them.
INSERT INTO dataset_event (id, dataset_id, source, event_id, extra, occurred_at)
SELECT
    (2606 + n / 20000) * 1000000000000::bigint + n, 1 + n % 200, 'p', n::text, '{}', now() - make_interval(secs => 110000 - n)
FROM generate_series(1, 110000) AS n;

INSERT INTO dag_run (dag_id, run_id, run_type, state, version_id, run_after, state_seq, unfinished)
SELECT
    'dag_' || 1 + n % 100,
    'r' || n,
    'dataset',
    (CASE WHEN n <= 104000 THEN 'success' WHEN n <= 104500 THEN 'running' WHEN n <= 105000 THEN 'queued' ELSE 'failed' END)::run_state,
    1 + n % 100,
    now(),
    3,
    0
FROM generate_series(1, 110000) AS n;

INSERT INTO dagrun_dataset_event (dag_id, dataset_event_id, dag_run_id)
SELECT 'dag_' || (dataset_id + 1) / 2, id, id % 1000000 FROM dataset_event WHERE id % 1000000 <= 104000;

INSERT INTO dataset_dag_run_queue (target_dag_id, dataset_id, dataset_event_id)
SELECT 'dag_' || (dataset_id + 1) / 2, dataset_id, id FROM dataset_event WHERE id % 1000000 > 104000;

INSERT INTO task_instance (dag_run_id, task_index, task_id, state, try_number, next_try_at)
SELECT
    run.id,
    task.index,
    't' || task.index,
    (
        CASE
            WHEN run.state <> 'running' THEN 'success'
            WHEN task.index = 1 THEN 'none'
            WHEN run.id % 5 = 0 THEN 'scheduled'
            WHEN run.id % 5 = 1 THEN 'up_for_retry'
            WHEN run.id % 5 = 2 THEN 'queued'
            ELSE 'running'
        END
    )::task_state,
    1,
    CASE WHEN run.state = 'running' AND run.id % 5 = 1 AND task.index = 0 THEN now() END
FROM dag_run AS run, generate_series(0, 1) AS task (index)
WHERE run.state = 'running' OR (run.state <> 'queued' AND task.index = 0);

INSERT INTO submission (submission_id, dag_run_id, task_index, try_number, backend, state, host, owner, handle, submitted_at, heartbeat_at)
SELECT
    gen_random_uuid(),
    dag_run_id,
    task_index,
    1,
    'command',
    (
        CASE
            WHEN state IN ('success', 'up_for_retry') THEN 'succeeded'
            WHEN state = 'running' THEN 'accepted'
            WHEN dag_run_id % 2 = 0 THEN 'intent'
            ELSE 'submitting'
        END
    )::submission_state,
    'here',
    '00000000-0000-0000-0000-000000000001',
    '{}',
    now(),
    now()
FROM task_instance
WHERE state NOT IN ('none', 'scheduled');

INSERT INTO deadline (dag_run_id, task_id, name, due_at, met_at)
SELECT id, NULL, 'soon', now() + interval '1 hour', CASE WHEN state IN ('success', 'failed') THEN now() END FROM dag_run;

INSERT INTO notification (dag_run_id, about, seq, kind, receiver_id, receiver, context, state)
SELECT
    id, 'run', 3, (ARRAY['email', 'webhook', 'function'])[1 + id % 3], gen_random_uuid(), '{}', '{}',
    (CASE WHEN id % 200 = 0 THEN 'pending' WHEN id % 50 = 0 THEN 'failed' ELSE 'sent' END)::notification_state
FROM dag_run
WHERE state IN ('success', 'failed');

INSERT INTO task_result (dag_run_id, task_index, value)
SELECT dag_run_id, task_index, '1' FROM task_instance WHERE state = 'success';

INSERT INTO dataset_subscription (dataset_id, dag_id) SELECT dataset_id, dag_id FROM dag_schedule_dataset_reference;

INSERT INTO task_outlet_dataset_reference (dag_id, task_id, dataset_id)
SELECT 'dag_' || (n + 1) / 2, 't0', n FROM generate_series(1, 200) AS n;

INSERT INTO discarded_dataset_event (dag_id, dataset_event_id, reason)
SELECT 'dag_' || (dataset_id + 1) / 2, id, 'ttl' FROM dataset_event WHERE id % 1000000 <= 4000;

INSERT INTO outbox (shard, kind, key, event_id, time, payload)
SELECT n % 8, 'task-state', 'k', n::text, now(), '' FROM generate_series(1, 5000) AS n;

-- The chain of entries would take a second.
ALTER TABLE audit_log DISABLE TRIGGER audit_log_chain;
INSERT INTO audit_log (who, what, object, at)
SELECT 'anna', 'triggered a run', 'DAG dag_' || n % 1000, now() - make_interval(mins => 20000 - n)
FROM generate_series(1, 20000) AS n;
ALTER TABLE audit_log ENABLE TRIGGER audit_log_chain;

ANALYZE;
