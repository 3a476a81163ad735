-- An installation of this share of 100,000 DAGs, 1,000,000 runs and 3,400,000 task instances, thirty days old.
-- `bench.scale` is the share; the temporary table `template` has a stored version by its name.
--
-- A hundredth of the runs is of the DAG `hot`; 200 are of `wide`, which has 2,000 tasks; `backlog` has half of all events pending.
SET synchronous_commit = off;

CREATE FUNCTION pg_temp.n(whole bigint) RETURNS bigint LANGUAGE sql STABLE
    RETURN greatest(round(whole * current_setting('bench.scale')::numeric), 1)::bigint;

CREATE FUNCTION pg_temp.dag(number bigint) RETURNS text LANGUAGE sql IMMUTABLE
    RETURN 'dag_' || lpad(number::text, 6, '0');

CREATE FUNCTION pg_temp.uri(number bigint) RETURNS text LANGUAGE sql IMMUTABLE
    RETURN 'lake://area_' || number % 100 || '/table_' || lpad(number::text, 6, '0');

SELECT make_ledger_month(2611, 2612);
SELECT begin_ledger_month(2611);

-- DAGs: a third has a timetable, a third waits for a dataset. -----------------------------------------------------------

INSERT INTO dag_file (path, digest, parse_duration_s)
SELECT 'team_' || n % 100 || '/file_' || n || '.py', 'd', 0.1 FROM generate_series(0, pg_temp.n(100000) / 10) AS n;
INSERT INTO dag_file (path, digest, parse_duration_s) VALUES ('special.py', 'd', 0.1);

INSERT INTO import_error (path, line, reason)
SELECT path, 3, 'NameError: name ''Dga'' is not defined' FROM dag_file WHERE path <> 'special.py' ORDER BY path LIMIT pg_temp.n(500);

CREATE TEMPORARY TABLE plain AS
SELECT
    n, n AS version_id, pg_temp.dag(n) AS dag_id, 'team_' || (n / 10) % 100 || '/file_' || n / 10 || '.py' AS path,
    (ARRAY['timed', 'consumer', 'manual'])[1 + n % 3] AS kind,
    pg_temp.uri(n % pg_temp.n(50000)) AS input, pg_temp.uri(n * 7 % pg_temp.n(50000)) AS output
FROM generate_series(0, pg_temp.n(100000) - 1) AS n;

INSERT INTO dag_version (id, dag_id, number, spec, path, digest, source)
SELECT
    version_id, dag_id, 1,
    replace(replace(replace(template.spec, 'DAG_ID', dag_id), 'lake://input', input), 'lake://output', output)::jsonb,
    path, 'd', 'from tidegate import Dag'
FROM plain JOIN template ON template.name = kind;

INSERT INTO dag_version (id, dag_id, number, spec, path, digest, source, created_at)
SELECT
    1000000 + place * 100 + number, name, number, spec::jsonb, 'special.py', 'd' || number, repeat(E'# a line\n', 100 + number::integer),
    now() - interval '1 day' * (50 - number)
FROM unnest(ARRAY['hot', 'wide', 'backlog']) WITH ORDINALITY AS special (name, place)
JOIN template USING (name)
CROSS JOIN generate_series(1, CASE name WHEN 'hot' THEN 50 ELSE 1 END) AS number;

INSERT INTO dag (
    dag_id, path, version_id, is_paused, is_stale, stale_at, timed_since, last_logical_date, last_interval_start, last_interval_end,
    due_at, held_since, hold_reason
)
SELECT
    dag_id, path, version_id, n % 20 = 7, n % 50 = 13, CASE WHEN n % 50 = 13 THEN now() END,
    CASE kind WHEN 'timed' THEN now() - interval '30 days' END, CASE kind WHEN 'timed' THEN date_trunc('day', now()) END,
    CASE kind WHEN 'timed' THEN date_trunc('day', now()) - interval '1 day' END, CASE kind WHEN 'timed' THEN date_trunc('day', now()) END,
    CASE kind WHEN 'timed' THEN now() + interval '1 s' * (n % 86400) END,
    CASE WHEN n % 5000 = 9 THEN now() END, CASE WHEN n % 5000 = 9 THEN 'a decision failed' END
FROM plain;
INSERT INTO dag (dag_id, path, version_id, is_paused, keeps_paused, timed_since, last_logical_date, last_interval_start, last_interval_end, due_at)
SELECT
    version.dag_id, 'special.py', max(version.id), version.dag_id = 'backlog', version.dag_id = 'backlog',
    CASE version.dag_id WHEN 'hot' THEN now() - interval '30 days' END, CASE version.dag_id WHEN 'hot' THEN now() END,
    CASE version.dag_id WHEN 'hot' THEN now() - interval '4 minutes' END, CASE version.dag_id WHEN 'hot' THEN now() END,
    CASE version.dag_id WHEN 'hot' THEN now() + interval '4 minutes' END
FROM dag_version AS version WHERE path = 'special.py' GROUP BY 1;

-- Datasets: the first one has half of all events, and a hundred consumers. ---------------------------------------------

INSERT INTO dataset (uri, is_active) SELECT pg_temp.uri(n), true FROM generate_series(0, pg_temp.n(50000) - 1) AS n;

CREATE TEMPORARY TABLE consumes AS
SELECT dataset.id AS dataset_id, dag_id FROM plain JOIN dataset ON uri = input WHERE kind = 'consumer'
UNION
SELECT 1, dag_id FROM plain WHERE kind = 'consumer' AND n < pg_temp.n(300);
ANALYZE consumes;

INSERT INTO dag_schedule_dataset_reference (dataset_id, dag_id) SELECT dataset_id, dag_id FROM consumes;
INSERT INTO dag_schedule_dataset_reference (dataset_id, dag_id) SELECT id, 'backlog' FROM dataset WHERE id <= pg_temp.n(1000);
INSERT INTO dataset_subscription (dataset_id, dag_id) SELECT dataset_id, dag_id FROM dag_schedule_dataset_reference;
INSERT INTO task_outlet_dataset_reference (dataset_id, dag_id, task_id)
SELECT dataset.id, dag_id, 'report' FROM plain JOIN dataset ON uri = output WHERE kind = 'consumer';

CREATE TEMPORARY TABLE event AS
SELECT
    2611000000000000 + n * 2 AS id, n, CASE n % 2 WHEN 0 THEN 1 ELSE 1 + n % pg_temp.n(50000) END AS dataset_id,
    now() - interval '30 days' * (1 - n::double precision / pg_temp.n(100000)) AS at
FROM generate_series(1, pg_temp.n(100000)) AS n;
ANALYZE event;

INSERT INTO dataset_event_arrival (id) SELECT id FROM event;
INSERT INTO dataset_event (id, dataset_id, source, event_id, extra, occurred_at, received_at, arrival_id)
SELECT id, dataset_id, 'importer', 'e-' || n, jsonb_build_object('rows', n), at, at, id FROM event;
SELECT setval('dataset_event_id_seq', 2611000000000000 + 2 * pg_temp.n(100000) + 1);

-- Runs: 1 % has failed; the newest ones are queued, those before them at work. -----------------------------------------

INSERT INTO dag_run (
    id, dag_id, run_id, run_type, state, version_id, run_after, logical_date, state_seq, task_seq, unfinished, failed_leaves, events,
    created_at, creator, cause, start_date, end_date, backfill_id
)
SELECT
    id, dag_id, type || '__' || id, type::run_type, state::run_state, version_id, at, CASE type WHEN 'scheduled' THEN at END, 3,
    6, CASE state WHEN 'queued' THEN 3 WHEN 'running' THEN 2 ELSE 0 END, (state = 'failed')::integer,
    (type = 'dataset')::integer, at, 'daemon 1', 'schedule_due', CASE WHEN state <> 'queued' THEN at + interval '1 s' END,
    CASE WHEN state IN ('success', 'failed') THEN at + interval '1 s' * (2 + id % 300) END,
    CASE WHEN dag_id = 'hot' AND state IN ('queued', 'running') THEN 10 * (1 + id / 100 % pg_temp.n(100)) END
FROM (
    SELECT
        id, now() - interval '30 days' * (1 - (id - 1)::double precision / pg_temp.n(1000000)) AS at,
        CASE WHEN id % 100 = 0 THEN 'hot' WHEN id % 5000 = 1 THEN 'wide' ELSE pg_temp.dag(id % pg_temp.n(100000)) END AS dag_id,
        CASE WHEN id % 100 = 0 THEN 1000150 WHEN id % 5000 = 1 THEN 1000201 ELSE id % pg_temp.n(100000) END AS version_id,
        CASE
            WHEN id % 100 = 0 THEN 'scheduled' WHEN id % 5000 = 1 THEN 'manual'
            ELSE (ARRAY['scheduled', 'dataset', 'manual'])[1 + id % pg_temp.n(100000) % 3]
        END AS type,
        CASE
            WHEN id > pg_temp.n(1000000) - pg_temp.n(1000) THEN 'queued'
            WHEN id > pg_temp.n(1000000) - pg_temp.n(1000) - greatest(pg_temp.n(2000), 100) THEN 'running'
            WHEN id % 97 = 5 THEN 'failed' ELSE 'success'
        END AS state
    FROM generate_series(1, pg_temp.n(1000000)) AS id
) AS run;
ANALYZE dag_run;

INSERT INTO run_state_log (dag_run_id, seq, state, reason, at)
SELECT
    run.id, log.seq, CASE log.seq WHEN 3 THEN run.state ELSE log.state::run_state END,
    CASE WHEN log.seq = 3 AND run.state = 'failed' THEN 'task load failed' ELSE '' END, run.created_at + interval '1 s' * log.seq
FROM dag_run AS run CROSS JOIN (VALUES (1, 'queued'), (2, 'running'), (3, 'success')) AS log (seq, state);

INSERT INTO task_instance (
    dag_run_id, task_index, task_id, state, try_number, pool, order_at, scheduled_at, start_date, end_date, reason
)
SELECT
    id, task_index, task_id, state, (state NOT IN ('none', 'scheduled', 'upstream_failed'))::integer,
    CASE id % 5 WHEN 0 THEN 'pool_' || id % 20 ELSE 'default_pool' END, run_after, start_date,
    CASE WHEN state NOT IN ('none', 'scheduled', 'queued') THEN start_date END,
    CASE WHEN state IN ('success', 'failed', 'upstream_failed') THEN end_date END, CASE state WHEN 'failed' THEN 'exit code 1' END
FROM (
    SELECT
        run.id, run.run_after, run.start_date, run.end_date, task.task_index, task.task_id,
        CASE
            WHEN run.state = 'success' OR task.task_index = 0 THEN 'success'
            WHEN run.state = 'failed' AND task.task_index = 1 THEN 'failed'
            WHEN run.state = 'failed' THEN 'upstream_failed'
            WHEN task.task_index = 1 THEN (ARRAY['running', 'queued', 'scheduled', 'scheduled'])[1 + run.id % 4]
            ELSE 'none'
        END::task_state AS state
    FROM dag_run AS run
    CROSS JOIN (VALUES (0, 'extract'), (1, 'load'), (2, 'report')) AS task (task_index, task_id)
    WHERE run.state <> 'queued' AND run.dag_id <> 'wide'
    UNION ALL
    SELECT
        run.id, run.run_after, run.start_date, run.end_date, task_index, 'group_' || task_index / 100 || '.task_' || task_index,
        CASE WHEN run.state = 'running' AND task_index > 1000 THEN 'none' ELSE 'success' END::task_state
    FROM dag_run AS run CROSS JOIN generate_series(0, 1999) AS task_index
    WHERE run.state <> 'queued' AND run.dag_id = 'wide'
) AS task;

INSERT INTO submission (
    submission_id, dag_run_id, task_index, try_number, backend, state, host, handle, reason, exit_code, created_at, submitted_at,
    started_at, ended_at, log_tail
)
SELECT
    (lpad(to_hex(dag_run_id), 16, '0') || lpad(to_hex(task_index), 16, '0'))::uuid, dag_run_id, task_index, 1, 'command',
    CASE state WHEN 'success' THEN 'succeeded' WHEN 'failed' THEN 'failed' WHEN 'running' THEN 'accepted' ELSE 'intent' END::submission_state,
    'host-1', '{"pid": 1}', coalesce(reason, ''), CASE state WHEN 'success' THEN 0 WHEN 'failed' THEN 1 END, order_at, start_date,
    start_date, end_date, CASE state WHEN 'failed' THEN repeat(E'a line of the log\n', 20) END
FROM task_instance
WHERE try_number = 1;

-- What became of the events. --------------------------------------------------------------------------------------------

INSERT INTO dagrun_dataset_event (dag_id, dataset_event_id, dag_run_id)
SELECT run.dag_id, event.id, run.id
FROM event
JOIN consumes USING (dataset_id)
JOIN plain ON plain.dag_id = consumes.dag_id
JOIN dag_run AS run
    ON run.id = plain.n + pg_temp.n(100000) * (2 + event.n / pg_temp.n(50000) * 3) AND run.dag_id = plain.dag_id
WHERE event.n % 2 <> 0;

INSERT INTO dataset_dag_run_queue (target_dag_id, dataset_id, dataset_event_id, created_at)
SELECT dag_id, dataset_id, id, at FROM event JOIN consumes USING (dataset_id)
WHERE n % 10 = 0 AND n > pg_temp.n(100000) - pg_temp.n(10000)
UNION ALL
SELECT 'backlog', dataset_id, id, at FROM event WHERE dataset_id <= pg_temp.n(1000);

UPDATE dataset_event SET source = 'tidegate', source_dag_id = dag_id, source_run_id = run_id, source_task_id = 'report'
FROM (
    SELECT event.id, run.dag_id, run.run_id FROM event JOIN dag_run AS run ON run.id = event.n * 3 WHERE event.n % 2 = 0
) AS made
WHERE dataset_event.id = made.id;

-- Backfills of `hot`: the first one has all its runs, the others a hundred each. ----------------------------------------

INSERT INTO pool (name, slots) SELECT 'pool_' || n, 16 FROM generate_series(0, 19, 5) AS n;

INSERT INTO backfill (
    id, dag_id, version_id, relative_fileloc, origin_code, state, start_date, end_date, max_active_runs, priority, reprocess,
    is_reverse, outlets, submitted_at, submitted_by, horizon, scheduled_date, planned_until, is_planned, run_start_date, run_end_date
)
SELECT
    n, 'hot', 1000150, 'special.py', '',
    (ARRAY['running', 'success', 'failed', 'cancelled', 'success', 'success', 'paused', 'success', 'success', 'success'])[1 + n % 10]::backfill_state,
    now() - interval '31 days', now(), 4, 0, 'none', false, 'events', now() - interval '1 hour' * n, 'anna', now(), now(), now(), true,
    now() - interval '1 day', CASE WHEN n % 10 NOT IN (0, 6) THEN now() - interval '1 minute' * n END
FROM generate_series(1, pg_temp.n(1000)) AS n;

INSERT INTO backfill_date (backfill_id, ordinal, logical_date, state, dag_run_id, tasks, tasks_succeeded, tasks_failed)
SELECT
    planned.backfill_id, ordinal, run.logical_date,
    CASE run.state WHEN 'success' THEN 'success' WHEN 'failed' THEN 'failed' ELSE 'open' END::backfill_date_state, run.id,
    CASE WHEN run.state IN ('success', 'failed') THEN 3 ELSE 0 END, CASE run.state WHEN 'success' THEN 3 WHEN 'failed' THEN 1 ELSE 0 END,
    CASE run.state WHEN 'failed' THEN 2 ELSE 0 END
FROM (
    SELECT n AS backfill_id, ordinal, 100 * (1 + (n * 37 + ordinal) % pg_temp.n(10000)) AS dag_run_id
    FROM generate_series(1, pg_temp.n(1000)) AS n
    CROSS JOIN LATERAL generate_series(1, least(CASE n WHEN 1 THEN 10000 ELSE 100 END, pg_temp.n(10000))) AS ordinal
) AS planned
JOIN dag_run AS run ON run.id = planned.dag_run_id;

-- What operators look at. -----------------------------------------------------------------------------------------------

INSERT INTO job (id, host, pid, version, heartbeat_at)
SELECT gen_random_uuid(), 'host-' || n, n, '1', now() + interval '1 day' FROM generate_series(1, 4) AS n;
INSERT INTO lease (kind, key, owner, next_offset)
SELECT 'partition', 'tidegate.' || topic || '/' || n, job.id, 1000
FROM unnest(ARRAY['dataset-updated', 'task-finished', 'openlineage']) AS topic
CROSS JOIN generate_series(0, 11) AS n
JOIN job ON job.pid = 1 + n % 4;

INSERT INTO deadline (dag_run_id, name, due_at, met_at, missed_at, missed_seq)
SELECT
    run.id, 'soon', run.created_at + interval '1 minute', CASE WHEN run.id % 1000 <> 0 THEN run.end_date END,
    CASE WHEN run.id % 1000 = 0 THEN run.end_date END, CASE WHEN run.id % 1000 = 0 THEN 3 END
FROM dag_run AS run WHERE run.id % 10 = 0 AND run.end_date IS NOT NULL;

INSERT INTO notification (dag_run_id, about, seq, kind, receiver_id, receiver, context, state, reason, created_at)
SELECT
    id, 'run', 3, 'email', gen_random_uuid(), '{}', jsonb_build_object('on', 'failure', 'dag_id', dag_id, 'run_id', run_id),
    CASE id % 3 WHEN 0 THEN 'failed' ELSE 'sent' END::notification_state, '', end_date
FROM dag_run WHERE id % 20 = 0 AND end_date IS NOT NULL;

INSERT INTO dead_letter (
    topic, partition, "offset", key, headers, value, value_bytes, reason, message, recorded_at, received_at, state, closed_at
)
SELECT
    'tidegate.dataset-updated', n % 12, n, 'k', '[]', convert_to(repeat('x', 500), 'UTF8'), 500,
    (ARRAY['invalid', 'too_large'])[1 + n % 2], 'the value is no JSON object', at, at,
    CASE n % 2 WHEN 0 THEN 'open' ELSE 'discarded' END::dead_letter_state, CASE n % 2 WHEN 1 THEN now() END
FROM (
    SELECT n, now() - interval '30 days' * (1 - n::double precision / pg_temp.n(20000)) AS at FROM generate_series(1, pg_temp.n(20000)) AS n
) AS letter;

INSERT INTO audit_log (who, what, object, details)
SELECT 'user_' || n % 50, 'paused a DAG', 'DAG ' || pg_temp.dag(n), '{"from": "127.0.0.1"}'
FROM generate_series(1, pg_temp.n(50000)) AS n;

INSERT INTO ignored_record (partition, what, records) SELECT 'tidegate.openlineage/' || n, 'START', 100 FROM generate_series(0, 11) AS n;
INSERT INTO schedule_note (dag_id, kind, reason, first_at, last_at)
SELECT dag_id, 'tick', 'the condition was not met', now(), now() FROM plain WHERE n % 10 = 0;
