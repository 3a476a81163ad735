-- The schema. All times are UTC, from the clock of the database.
--
-- Tables that every event passes through have no foreign keys: their rows are written from rows that the same transaction has
-- locked, and the trigger of a key costs more than such a row.
-- Tables with short-lived rows are vacuumed early; tables with hot columns leave room for updates in place (fillfactor).

-- States -----------------------------------------------------------------------------------------------------------------

CREATE TYPE run_state AS ENUM ('queued', 'running', 'success', 'failed');
CREATE TYPE run_type AS ENUM ('dataset', 'manual', 'scheduled', 'backfill');
CREATE TYPE task_state AS ENUM
    ('none', 'scheduled', 'queued', 'running', 'success', 'failed', 'upstream_failed', 'up_for_retry', 'skipped', 'removed');
CREATE TYPE submission_state AS ENUM ('intent', 'submitting', 'accepted', 'succeeded', 'failed', 'killed', 'lost');
CREATE TYPE notification_state AS ENUM ('pending', 'sending', 'sent', 'failed');
CREATE TYPE dead_letter_state AS ENUM ('open', 'replayed', 'discarded');
CREATE TYPE ledger_state AS ENUM ('whole', 'thinned', 'dropped');

-- The installation ------------------------------------------------------------------------------------------------------

-- One row. The token of an attempt is derived from the secret, so it is the same after a loss of commits.
CREATE TABLE installation (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    secret bytea NOT NULL DEFAULT uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())
);
INSERT INTO installation DEFAULT VALUES;

-- Proves that an end comes from the process of the attempt: it gets the token, and sends it with its end.
CREATE FUNCTION attempt_token(secret bytea, submission_id uuid) RETURNS text
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN left(encode(sha256(secret || uuid_send(submission_id)), 'hex'), 32);

-- The nearest time that Python can compare: only a damaged row has another one.
CREATE FUNCTION in_calendar(at timestamptz) RETURNS timestamptz
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN at IS NOT NULL THEN least(greatest(at, timestamptz '1900-01-01Z'), timestamptz '2200-01-01Z') END;

-- Daemons and their leases -----------------------------------------------------------------------------------------------

-- One row per daemon. `settings` are the settings that decisions depend on; `away` has, by name, the servers that the daemon
-- cannot reach, with the start and the error of each outage.
CREATE TABLE job (
    id uuid PRIMARY KEY,
    host text NOT NULL,
    pid integer NOT NULL,
    version text NOT NULL,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    heartbeat_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    settings jsonb NOT NULL DEFAULT '{}',
    away jsonb NOT NULL DEFAULT '{}'
) WITH (fillfactor = 50);

-- A daemon is live while its heartbeat is younger than its own lease_ttl_s. All statements read liveness from this view.
CREATE VIEW live_job AS
SELECT id, host, pid, version, started_at, heartbeat_at, settings, away
FROM job
WHERE heartbeat_at > clock_timestamp() - make_interval(secs => coalesce((settings ->> 'lease_ttl_s')::double precision, 10));

-- One row per duty, with the daemon that owns it. A lease lasts while its owner is live. `next_offset` is the progress of a
-- partition: it moves by compare-and-swap in the transaction of the effects; a lease only decides which daemon works.
CREATE TABLE lease (
    kind text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    owner uuid,
    epoch bigint NOT NULL DEFAULT 0,
    next_offset bigint,
    halted boolean NOT NULL DEFAULT false,
    PRIMARY KEY (kind, key)
) WITH (fillfactor = 50);

-- Partitions that stopped because their offset is outside the log; at most one open incident per partition.
CREATE TABLE ingest_incident (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    partition text NOT NULL,
    next_offset bigint NOT NULL,
    log_start bigint NOT NULL,
    log_end bigint NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    resolved_at timestamptz
);
CREATE UNIQUE INDEX ingest_incident_open ON ingest_incident (partition) WHERE resolved_at IS NULL;

-- The last commits that each daemon got acknowledged, per connection. A server that lacks one of them, such as a promoted
-- asynchronous standby, has lost acknowledged commits.
CREATE TABLE commit_mark (
    daemon uuid NOT NULL,
    backend integer NOT NULL,
    number bigint NOT NULL,
    at timestamptz NOT NULL,
    PRIMARY KEY (daemon, number)
);

-- One row per loss of commits, however many daemons detect it.
CREATE TABLE commit_loss (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    timeline text NOT NULL,
    since timestamptz NOT NULL,
    until timestamptz NOT NULL,
    found_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    found_by text NOT NULL,
    runs integer NOT NULL DEFAULT 0,
    settled_at timestamptz,
    settled_by text,
    settled_because text
);
CREATE UNIQUE INDEX commit_loss_open ON commit_loss (timeline) WHERE settled_at IS NULL;

-- Records from Kafka -----------------------------------------------------------------------------------------------------

-- The ids of handled events: a redelivered record changes nothing. `scope` is the kind of event, in few bytes: an event never
-- suppresses one of another kind with the same id. The scope of an end has its token too: no other sender can take its id.
CREATE TABLE event_dedupe (
    source text COLLATE "C" NOT NULL,
    event_id text COLLATE "C" NOT NULL,
    scope text COLLATE "C" NOT NULL,
    received_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (source, event_id, scope)
);
-- Ids arrive in order of time: BRIN finds old ids with a few bytes per block.
CREATE INDEX event_dedupe_received ON event_dedupe USING brin (received_at);

-- Records that cannot be handled. A user replays or discards an open one. A replayed record that fails again is another dead
-- letter with `replay_of`. `recorded_at` is the time of the record in the topic.
CREATE TABLE dead_letter (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    topic text NOT NULL,
    partition integer NOT NULL,
    "offset" bigint NOT NULL,
    key bytea,
    headers jsonb NOT NULL,
    raw_headers bytea,
    value bytea,
    value_bytes integer NOT NULL,
    reason text NOT NULL,
    message text NOT NULL,
    recorded_at timestamptz NOT NULL,
    received_at timestamptz NOT NULL DEFAULT now(),
    replay_of bigint,
    state dead_letter_state NOT NULL DEFAULT 'open',
    closed_at timestamptz,
    closed_by text,
    closed_because text,
    CHECK ((state = 'open') = (closed_at IS NULL))
);
-- A topic that was deleted and created again has other records at the same offsets.
CREATE UNIQUE INDEX dead_letter_record ON dead_letter (topic, partition, "offset", recorded_at, md5(coalesce(value, '')));
CREATE INDEX dead_letter_open ON dead_letter (id) WHERE state = 'open';
CREATE INDEX dead_letter_replay ON dead_letter (replay_of) WHERE replay_of IS NOT NULL;

-- Task-finished events that changed nothing: the attempt had ended, or a later attempt had superseded it.
CREATE TABLE ignored_finish (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    submission_id uuid NOT NULL,
    source text NOT NULL,
    event_id text NOT NULL,
    outcome text NOT NULL,
    reason text NOT NULL,
    received_at timestamptz NOT NULL DEFAULT now()
);

-- Counts of valid records that announce no new data, such as the start of an OpenLineage run, by partition and kind.
CREATE TABLE ignored_record (
    partition text COLLATE "C" NOT NULL,
    what text COLLATE "C" NOT NULL,
    records bigint NOT NULL,
    last_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (partition, what)
);

-- DAGs -------------------------------------------------------------------------------------------------------------------

CREATE TABLE dag_file (
    path text PRIMARY KEY,
    digest text,
    absent_scans integer NOT NULL DEFAULT 0,
    parsed_at timestamptz NOT NULL DEFAULT now(),
    parse_duration_s double precision NOT NULL
);

CREATE TABLE import_error (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    path text NOT NULL UNIQUE REFERENCES dag_file (path),
    line integer,
    reason text NOT NULL,
    at timestamptz NOT NULL DEFAULT now()
);

-- The lock of the row protects every decision about the DAG.
--   inspects_events       its condition depends on more of an event than its dataset
--   keeps_paused          events that arrive while it is paused stay pending
--   failed_runs           failed runs since the last success
--   timed_since           when it got a timetable; last_* are the last decided tick
--   due_at                when the clock visits it; NULL: its next decision has another cause
--   dataset_run_at        when its condition last made a run
--   deadline_at           input deadlines up to this time are decided
--   last_source           the source of runs that was served last: the queue, events or the timetable
--   backfilled_by_txn     the last transaction that queued events from the ledger: a cached low watermark of the pending queue
--                         holds while this stays. A count would restart when a DAG is deleted and created again
--   held_since            a decision about it failed, or a version of it cannot be read: nothing is decided until its release
--   released_at           its last release: what waited for it is neither silent nor stuck at once
--   is_stopped            its tasks are not admitted
--   clock_shard           each shard is a lease of one daemon
CREATE TABLE dag (
    dag_id text COLLATE "C" PRIMARY KEY,
    path text NOT NULL REFERENCES dag_file (path),
    version_id bigint NOT NULL,
    is_paused boolean NOT NULL DEFAULT false,
    paused_at timestamptz,
    is_stale boolean NOT NULL DEFAULT false,
    stale_at timestamptz,
    inspects_events boolean NOT NULL DEFAULT false,
    keeps_paused boolean NOT NULL DEFAULT false,
    failed_runs integer NOT NULL DEFAULT 0,
    timed_since timestamptz,
    last_logical_date timestamptz,
    last_interval_start timestamptz,
    last_interval_end timestamptz,
    due_at timestamptz,
    dataset_run_at timestamptz,
    deadline_at timestamptz,
    last_source text,
    backfilled_by_txn bigint NOT NULL DEFAULT 0,
    held_since timestamptz,
    hold_reason text,
    released_at timestamptz,
    is_stopped boolean NOT NULL GENERATED ALWAYS AS (is_paused OR held_since IS NOT NULL) STORED,
    clock_shard smallint NOT NULL GENERATED ALWAYS AS (abs(hashtext(dag_id) % 16)) STORED
) WITH (fillfactor = 80);
CREATE INDEX dag_path ON dag (path);
CREATE INDEX dag_due ON dag (clock_shard, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX dag_held ON dag (dag_id) WHERE held_since IS NOT NULL;

-- Immutable. A run is pinned to the version it was created with.
CREATE TABLE dag_version (
    id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    dag_id text COLLATE "C" NOT NULL,
    number integer NOT NULL,
    spec jsonb NOT NULL,
    path text NOT NULL,
    digest text NOT NULL,
    source text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (dag_id, number)
);

-- Decisions about a schedule that made no run: ticks whose condition was unmet, missed input deadlines, unreadable conditions.
CREATE TABLE schedule_note (
    dag_id text COLLATE "C" NOT NULL,
    kind text NOT NULL,
    reason text NOT NULL,
    first_at timestamptz NOT NULL,
    last_at timestamptz NOT NULL,
    times integer NOT NULL DEFAULT 1,
    PRIMARY KEY (dag_id, kind, reason)
) WITH (fillfactor = 80);
CREATE INDEX schedule_note_last ON schedule_note USING brin (last_at);

-- Datasets, and which DAGs consume and produce them ----------------------------------------------------------------------

-- A dataset is active while a DAG consumes or produces it. The history of an inactive dataset stays.
CREATE TABLE dataset (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    uri text COLLATE "C" NOT NULL UNIQUE,
    name text NOT NULL DEFAULT '',
    extra jsonb NOT NULL DEFAULT '{}',
    is_active boolean NOT NULL DEFAULT false
);

CREATE TABLE dag_schedule_dataset_reference (
    dataset_id bigint NOT NULL REFERENCES dataset (id),
    dag_id text COLLATE "C" NOT NULL REFERENCES dag (dag_id),
    PRIMARY KEY (dataset_id, dag_id)
);
CREATE INDEX dag_schedule_dataset_reference_dag ON dag_schedule_dataset_reference (dag_id);

-- Patterns that DAGs consume. Every URI that a pattern matches begins with its prefix, the part before the first *: the patterns
-- that may match a new dataset are found by the prefixes of its URI. Datasets that match are in `dag_schedule_dataset_reference`.
CREATE TABLE dag_schedule_pattern_reference (
    prefix text COLLATE "C" NOT NULL,
    pattern text COLLATE "C" NOT NULL,
    dag_id text COLLATE "C" NOT NULL REFERENCES dag (dag_id),
    PRIMARY KEY (prefix, pattern, dag_id)
);
CREATE INDEX dag_schedule_pattern_reference_dag ON dag_schedule_pattern_reference (dag_id);

CREATE TABLE task_outlet_dataset_reference (
    dataset_id bigint NOT NULL REFERENCES dataset (id),
    dag_id text COLLATE "C" NOT NULL REFERENCES dag (dag_id),
    task_id text NOT NULL,
    PRIMARY KEY (dataset_id, dag_id, task_id)
);

-- The first and the last transaction between which a DAG consumes a dataset; with `history_since`, also earlier events that
-- occurred since then. A row of `dag_schedule_dataset_reference` has a subscription without an end.
CREATE TABLE dataset_subscription (
    dataset_id bigint NOT NULL,
    dag_id text COLLATE "C" NOT NULL,
    began_in xid8 NOT NULL DEFAULT pg_current_xact_id(),
    ended_in xid8,
    history_since timestamptz,
    PRIMARY KEY (dataset_id, dag_id, began_in)
);

-- The event ledger -------------------------------------------------------------------------------------------------------
--
-- Events, their arrivals and their outcomes, in monthly partitions by the id of the event. An id begins with the month in which
-- it was given, so it names its partition: 2612000000000001 is the first event of December 2026. Ids of a month are given once
-- its partition exists, and ids of the previous month until then, so no event waits for a partition. Month 0 has the events
-- before the first month.

CREATE SEQUENCE dataset_event_id_seq;

CREATE TABLE dataset_event (
    id bigint NOT NULL DEFAULT nextval('dataset_event_id_seq'),
    dataset_id bigint NOT NULL,
    source text NOT NULL,
    event_id text NOT NULL,
    extra jsonb NOT NULL,
    extra_bytes integer NOT NULL GENERATED ALWAYS AS (octet_length(extra::text)) STORED,
    occurred_at timestamptz NOT NULL,
    received_at timestamptz NOT NULL DEFAULT now(),
    arrival_id bigint,
    PRIMARY KEY (id)
) PARTITION BY RANGE (id);
CREATE INDEX dataset_event_dataset ON dataset_event (dataset_id, id);
ALTER SEQUENCE dataset_event_id_seq OWNED BY dataset_event.id;

-- One row per statement that wrote events: its transaction, and the snapshot that decides which subscriptions it saw. Its id is
-- the id of the last event of the statement, so that no partition has events whose arrival is in an older one.
CREATE TABLE dataset_event_arrival (
    id bigint NOT NULL DEFAULT nextval('dataset_event_id_seq'),
    xact xid8 NOT NULL DEFAULT pg_current_xact_id(),
    seen pg_snapshot NOT NULL DEFAULT pg_current_snapshot(),
    PRIMARY KEY (id)
) PARTITION BY RANGE (id);

-- An event that a DAG is subscribed to has one row per DAG in exactly one of the next three tables: it is pending, a run consumed
-- it, or it was discarded.
CREATE TABLE dataset_dag_run_queue (
    target_dag_id text COLLATE "C" NOT NULL,
    dataset_id bigint NOT NULL,
    dataset_event_id bigint NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (target_dag_id, dataset_event_id)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000);
CREATE INDEX dataset_dag_run_queue_dataset ON dataset_dag_run_queue (target_dag_id, dataset_id, dataset_event_id);

CREATE TABLE dagrun_dataset_event (
    dag_id text COLLATE "C" NOT NULL,
    dataset_event_id bigint NOT NULL,
    dag_run_id bigint NOT NULL,
    PRIMARY KEY (dag_id, dataset_event_id)
) PARTITION BY RANGE (dataset_event_id);
CREATE INDEX dagrun_dataset_event_run ON dagrun_dataset_event (dag_run_id);

CREATE TABLE discarded_dataset_event (
    dag_id text COLLATE "C" NOT NULL,
    dataset_event_id bigint NOT NULL,
    reason text NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (dag_id, dataset_event_id)
) PARTITION BY RANGE (dataset_event_id);

CREATE TABLE dataset_event_first PARTITION OF dataset_event FOR VALUES FROM (MINVALUE) TO (2001000000000000);
CREATE TABLE dataset_event_arrival_first PARTITION OF dataset_event_arrival FOR VALUES FROM (MINVALUE) TO (2001000000000000);
CREATE TABLE dagrun_dataset_event_first PARTITION OF dagrun_dataset_event FOR VALUES FROM (MINVALUE) TO (2001000000000000);
CREATE TABLE discarded_dataset_event_first PARTITION OF discarded_dataset_event FOR VALUES FROM (MINVALUE) TO (2001000000000000);

-- Months as in ids. `thinned`: a month older than the retention has only the events that were pending or consumed by an active
-- run, with all their outcomes; `dropped`: it has none.
CREATE TABLE ledger_month (
    month integer PRIMARY KEY,
    state ledger_state NOT NULL DEFAULT 'whole',
    made_at timestamptz NOT NULL DEFAULT now(),
    retired_at timestamptz,
    was_empty boolean
);
INSERT INTO ledger_month (month) VALUES (0);

-- Whether a subscription covers an event: its statement saw the subscription begin and did not see it end, or the subscription
-- has the history of the dataset. Without an arrival only the latter is known.
CREATE FUNCTION was_subscribed(
    began_in xid8, ended_in xid8, history_since timestamptz, xact xid8, seen pg_snapshot, occurred_at timestamptz
) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN
    (
        coalesce(began_in = xact OR pg_visible_in_snapshot(began_in, seen), false)
        OR coalesce(occurred_at >= history_since, false)
    )
    AND NOT coalesce(pg_visible_in_snapshot(ended_in, seen), false);

-- The subscriptions that are owed an event of a dataset. The body is a string, so that it is inlined into the calling statement.
CREATE FUNCTION subscriptions_owed(of_dataset bigint, arrived_as bigint, occurred_at timestamptz)
RETURNS SETOF dataset_subscription LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT subscription.*
    FROM dataset_subscription AS subscription
    LEFT JOIN dataset_event_arrival AS arrival ON arrival.id = arrived_as
    WHERE subscription.dataset_id = of_dataset
      AND was_subscribed(
          subscription.began_in, subscription.ended_in, subscription.history_since, arrival.xact, arrival.seen, occurred_at
      )
$$;

-- Create the partitions of a month, once: a dropped month is not created again. Blocks no other statement.
CREATE FUNCTION make_ledger_month(new integer, following integer) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    ledger text;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('tidegate.ledger'));
    IF EXISTS (SELECT FROM ledger_month WHERE month = new) THEN
        RETURN false;
    END IF;
    FOREACH ledger IN ARRAY ARRAY['dataset_event', 'dataset_event_arrival', 'discarded_dataset_event', 'dagrun_dataset_event'] LOOP
        EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL)', ledger || '_' || new, ledger);
        EXECUTE format(
            'ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)',
            ledger, ledger || '_' || new, new * 1000000000000::bigint, following * 1000000000000::bigint
        );
    END LOOP;
    INSERT INTO ledger_month (month) VALUES (new);
    RETURN true;
END
$$;

-- Give ids of this month from now on, unless they are already of it or a later one: with earlier ones, ids would repeat.
CREATE FUNCTION begin_ledger_month(new integer) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    first bigint := new * 1000000000000::bigint + 1;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('tidegate.ledger'));
    IF (SELECT last_value FROM dataset_event_id_seq) >= first OR NOT EXISTS (SELECT FROM ledger_month WHERE month = new) THEN
        RETURN false;
    END IF;
    PERFORM setval('dataset_event_id_seq', first, false);
    RETURN true;
END
$$;

-- Drop a past month whose last event came before `cutoff`, in one transaction. Events that are pending or consumed by an active
-- run stay with their outcomes and arrivals; if there are more than `most`, the month stays whole. A thinned month is dropped
-- when none of its events is pending, and none was discarded, or consumed by a run that ended, since `cutoff`.
-- Returns the new state and the number of events that stay, if the state has changed or the events are too many.
--
-- Reading and copying blocks only transactions that subscribe to a dataset with its history, and decisions about one of these
-- events. The tables are then exchanged under exclusive locks on the ledger, for milliseconds. Fails if the locks are not granted
-- at once.
CREATE FUNCTION retire_ledger_month(old integer, following integer, cutoff timestamptz, most integer)
RETURNS TABLE (is_now ledger_state, staying bigint) LANGUAGE plpgsql
SET enable_seqscan = on SET enable_hashjoin = on SET enable_mergejoin = on SET plan_cache_mode = auto AS $$
DECLARE
    ledgers text[] := ARRAY['dataset_event', 'dataset_event_arrival', 'discarded_dataset_event', 'dagrun_dataset_event'];
    name text := CASE old WHEN 0 THEN 'first' ELSE old::text END;
    low bigint := CASE old WHEN 0 THEN -9223372036854775808 ELSE old * 1000000000000::bigint END;
    high bigint := following * 1000000000000::bigint;
    ledger text;
    stays boolean;
    kept bigint[];
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('tidegate.ledger'));
    SELECT state INTO is_now FROM ledger_month WHERE month = old;
    IF is_now IS NULL OR is_now = 'dropped' OR (SELECT last_value FROM dataset_event_id_seq) < high THEN
        RETURN;
    END IF;

    PERFORM set_config('lock_timeout', '1s', true);
    LOCK TABLE ONLY dataset_event IN SHARE UPDATE EXCLUSIVE MODE;
    EXECUTE format('LOCK TABLE %I, %I, %I IN EXCLUSIVE MODE',
        'dataset_event_' || name, 'discarded_dataset_event_' || name, 'dagrun_dataset_event_' || name);

    IF is_now = 'whole' THEN
        EXECUTE format('SELECT received_at >= $1 FROM %I ORDER BY id DESC LIMIT 1', 'dataset_event_' || name)
            INTO stays USING cutoff;
    ELSE
        EXECUTE format(
            'SELECT EXISTS (SELECT FROM %I AS taken JOIN dag_run AS run ON run.id = taken.dag_run_id WHERE run.end_date >= $1)'
            '    OR EXISTS (SELECT FROM %I WHERE at >= $1)',
            'dagrun_dataset_event_' || name, 'discarded_dataset_event_' || name
        ) INTO stays USING cutoff;
    END IF;

    EXECUTE format(
        'SELECT coalesce(array_agg(id), ''{}'') FROM ('
        '    SELECT dataset_event_id AS id FROM dataset_dag_run_queue WHERE dataset_event_id >= $1 AND dataset_event_id < $2'
        '    UNION'
        '    SELECT taken.dataset_event_id FROM dag_run AS run JOIN %I AS taken ON taken.dag_run_id = run.id'
        '    WHERE run.state IN (''queued'', ''running'')'
        '    LIMIT $3'
        ') AS event',
        'dagrun_dataset_event_' || name
    ) INTO kept USING low, high, most + 1;
    staying := cardinality(kept);
    IF NOT coalesce(stays, false) AND staying > most THEN
        RETURN NEXT;
    END IF;
    IF stays OR staying > most OR (is_now = 'thinned' AND staying > 0) THEN
        RETURN;
    END IF;

    IF staying > 0 THEN
        FOREACH ledger IN ARRAY ledgers LOOP
            EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL)', ledger || '_kept', ledger);
        END LOOP;
        EXECUTE format(
            'INSERT INTO dataset_event_kept (id, dataset_id, source, event_id, extra, occurred_at, received_at, arrival_id)'
            'SELECT id, dataset_id, source, event_id, extra, occurred_at, received_at, arrival_id FROM %I WHERE id = ANY ($1)',
            'dataset_event_' || name
        ) USING kept;
        INSERT INTO dataset_event_arrival_kept
        SELECT event.id, arrival.xact, arrival.seen
        FROM dataset_event_kept AS event JOIN dataset_event_arrival AS arrival ON arrival.id = event.arrival_id;
        UPDATE dataset_event_kept SET arrival_id = id WHERE arrival_id IS NOT NULL;
        ANALYZE dataset_event_kept;
        FOREACH ledger IN ARRAY ledgers[3:4] LOOP
            EXECUTE format(
                'INSERT INTO %I SELECT * FROM %I WHERE (dag_id, dataset_event_id) IN ('
                '    SELECT subscription.dag_id, event.id'
                '    FROM dataset_event_kept AS event JOIN dataset_subscription AS subscription USING (dataset_id)'
                ')',
                ledger || '_kept', ledger || '_' || name
            );
        END LOOP;
    END IF;

    PERFORM set_config('lock_timeout', '100ms', true);
    LOCK TABLE ONLY dataset_event, ONLY dataset_event_arrival, ONLY discarded_dataset_event, ONLY dagrun_dataset_event
        IN ACCESS EXCLUSIVE MODE;
    FOREACH ledger IN ARRAY ledgers LOOP
        EXECUTE format('DROP TABLE %I', ledger || '_' || name);
        IF staying > 0 THEN
            EXECUTE format('ALTER TABLE %I RENAME TO %I', ledger || '_kept', ledger || '_' || name);
            EXECUTE format(
                'ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)',
                ledger, ledger || '_' || name, CASE old WHEN 0 THEN 'MINVALUE' ELSE low::text END, high
            );
        END IF;
    END LOOP;
    is_now := CASE WHEN staying > 0 THEN 'thinned' ELSE 'dropped' END;
    UPDATE ledger_month SET state = is_now, retired_at = now(), was_empty = coalesce(was_empty, stays IS NULL) WHERE month = old;
    RETURN NEXT;
END
$$;

-- Runs -------------------------------------------------------------------------------------------------------------------

-- The lock of the row also protects the task instances of the run and all counters.
--   order_at         runs of a DAG are ordered by this, then by id
--   state_seq        number of the last run-state event of the run; task_seq: of its last task-state event
--   unfinished       tasks without an end state; active_tasks: queued or running ones
--   failed_leaves    failed tasks that decide about the run
--   events           number of consumed dataset events, also of events that the ledger has dropped
--   events_left      number of dataset events, at least, that the limit of events per run left pending
--   creator          the daemon or user; created_by is the daemon's id, whose row in `job` may be gone
--   cause            the kind of message that created it
CREATE TABLE dag_run (
    id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    dag_id text COLLATE "C" NOT NULL,
    run_id text COLLATE "C" NOT NULL,
    run_type run_type NOT NULL,
    state run_state NOT NULL,
    version_id bigint NOT NULL,
    run_after timestamptz NOT NULL,
    logical_date timestamptz,
    data_interval_start timestamptz,
    data_interval_end timestamptz,
    order_at timestamptz GENERATED ALWAYS AS (coalesce(logical_date, run_after)) STORED,
    conf jsonb NOT NULL DEFAULT '{}',
    state_seq integer NOT NULL,
    task_seq integer NOT NULL DEFAULT 0,
    unfinished integer NOT NULL,
    failed_leaves integer NOT NULL DEFAULT 0,
    active_tasks integer NOT NULL DEFAULT 0,
    max_active_tasks integer NOT NULL DEFAULT 16,
    events integer,
    events_left integer,
    created_at timestamptz NOT NULL DEFAULT now(),
    created_by uuid,
    creator text,
    cause text,
    start_date timestamptz,
    end_date timestamptz,
    times_out_at timestamptz,
    UNIQUE (dag_id, run_id),
    -- A run of a user cannot have the id of a run that Tidegate makes later.
    CHECK (run_type <> 'manual' OR NOT run_id ^@ ANY (ARRAY['scheduled__', 'dataset__', 'backfill__']))
) WITH (
    -- Vacuumed by changed rows, whatever the size: otherwise the index of active runs grows with the runs that have ended.
    fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 10000
);

-- The unfinished runs of held DAGs: after the end of a run, nothing of it is decided, and its attempts are killed as those of other
-- DAGs. Usually empty, so that an anti-join with it costs two lookups by key. The state is compared as text, so that the planner does
-- not use the index of active runs.
CREATE VIEW held_run AS
SELECT run.id
FROM dag_run AS run
JOIN dag USING (dag_id)
WHERE dag.held_since IS NOT NULL AND run.state::text IN ('queued', 'running');
-- A logical date has one run, of any type.
CREATE UNIQUE INDEX dag_run_logical_date ON dag_run (dag_id, logical_date) WHERE logical_date IS NOT NULL;
-- Partial, so that the planner uses it only for statements that ask for this order.
CREATE INDEX dag_run_order ON dag_run (dag_id, order_at, id) WHERE order_at IS NOT NULL;
CREATE INDEX dag_run_active ON dag_run (dag_id, state, order_at, id) WHERE state IN ('queued', 'running');
CREATE INDEX dag_run_times_out ON dag_run ((id % 16), times_out_at) WHERE state = 'running' AND times_out_at IS NOT NULL;

-- The journal of a run's states.
CREATE TABLE run_state_log (
    dag_run_id bigint NOT NULL,
    seq integer NOT NULL,
    state run_state NOT NULL,
    reason text NOT NULL,
    at timestamptz NOT NULL,
    PRIMARY KEY (dag_run_id, seq)
);

-- Requests to evaluate all tasks of a run; with `stop_reason`, to end the run.
CREATE TABLE run_to_reconsider (
    dag_run_id bigint PRIMARY KEY,
    stop_reason text,
    created_at timestamptz NOT NULL DEFAULT now()
);

-- Tasks and their attempts -----------------------------------------------------------------------------------------------

-- Counts of the direct upstream keep the cost of a finished task at O(direct downstream).
--   awaited               number of instances it waits for; success to upstream_failed: how many ended in each state
--   waits_for_past        the previous run does not allow it yet
--   elements              instances of a mapped task, once it is mapped
--   rank                  lower ranks leave the queue of the pool first
--   per_dag, per_run      limits of the task
CREATE TABLE task_instance (
    dag_run_id bigint NOT NULL,
    task_index integer NOT NULL,
    task_id text NOT NULL,
    state task_state NOT NULL,
    try_number integer NOT NULL DEFAULT 0,
    max_tries integer NOT NULL DEFAULT 1,
    awaited integer NOT NULL DEFAULT 0,
    success integer NOT NULL DEFAULT 0,
    failed integer NOT NULL DEFAULT 0,
    skipped integer NOT NULL DEFAULT 0,
    upstream_failed integer NOT NULL DEFAULT 0,
    waits_for_past boolean NOT NULL DEFAULT false,
    elements integer NOT NULL DEFAULT 0,
    pool text NOT NULL DEFAULT 'default_pool',
    pool_slots integer NOT NULL DEFAULT 1,
    rank integer NOT NULL DEFAULT 0,
    order_at timestamptz NOT NULL DEFAULT now(),
    per_dag integer,
    per_run integer,
    scheduled_at timestamptz,
    next_try_at timestamptz,
    start_date timestamptz,
    end_date timestamptz,
    PRIMARY KEY (dag_run_id, task_index)
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX task_instance_ready ON task_instance (pool, rank, order_at, dag_run_id, task_index) WHERE state = 'scheduled';
CREATE INDEX task_instance_oldest ON task_instance (pool, scheduled_at) WHERE state = 'scheduled';
CREATE INDEX task_instance_retry ON task_instance ((dag_run_id % 16), next_try_at) WHERE state = 'up_for_retry';
CREATE INDEX task_instance_occupying ON task_instance (pool) INCLUDE (pool_slots) WHERE state IN ('queued', 'running');
CREATE INDEX task_instance_limited ON task_instance (task_id, dag_run_id)
    WHERE state IN ('queued', 'running') AND (per_dag IS NOT NULL OR per_run IS NOT NULL);

-- Tasks that occupy slots of their pool; and of these, tasks with limits of their own. Each view has an index.
CREATE VIEW occupying_task AS SELECT * FROM task_instance WHERE state IN ('queued', 'running');
CREATE VIEW limited_task AS SELECT * FROM occupying_task WHERE per_dag IS NOT NULL OR per_run IS NOT NULL;

-- Return values of tasks.
CREATE TABLE task_result (
    dag_run_id bigint NOT NULL,
    task_index integer NOT NULL,
    value jsonb NOT NULL,
    PRIMARY KEY (dag_run_id, task_index)
);

-- One row per attempt: the record of a job that a backend runs. The intent is committed before anything is submitted.
CREATE TABLE submission (
    submission_id uuid PRIMARY KEY,
    dag_run_id bigint NOT NULL,
    task_index integer NOT NULL,
    try_number integer NOT NULL,
    backend text NOT NULL,
    state submission_state NOT NULL,
    desired_state text NOT NULL DEFAULT 'run' CHECK (desired_state IN ('run', 'kill')),
    kill_reason text,
    kill_cause text CHECK (kill_cause IN ('stopped', 'timed_out', 'cleared', 'not_submitted')),
    host text,
    owner uuid,
    handle jsonb,
    reason text NOT NULL DEFAULT '',
    exit_code integer,
    created_at timestamptz NOT NULL DEFAULT now(),
    submitted_at timestamptz,
    started_at timestamptz,
    ended_at timestamptz,
    heartbeat_at timestamptz,
    times_out_at timestamptz,
    UNIQUE (dag_run_id, task_index, try_number)
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX submission_open ON submission (state, backend) WHERE state IN ('intent', 'submitting', 'accepted');
CREATE INDEX submission_times_out ON submission ((dag_run_id % 16), times_out_at)
    WHERE state = 'accepted' AND desired_state = 'run' AND times_out_at IS NOT NULL;

-- Attempts that have not ended.
CREATE VIEW open_attempt AS SELECT * FROM submission WHERE state IN ('intent', 'submitting', 'accepted');

-- Slots of -1: unlimited. `admitted` counts the tasks that got slots while others were starving.
CREATE TABLE pool (
    name text PRIMARY KEY,
    slots integer NOT NULL CHECK (slots >= -1),
    admitted bigint NOT NULL DEFAULT 0
);
INSERT INTO pool (name, slots) VALUES ('default_pool', 128);

-- Deadlines and notifications --------------------------------------------------------------------------------------------

-- Written with the run. A run or task that ends in time meets its deadlines at once, so a row that is open when due was missed.
-- `missed_seq` is the number of the run-state event that publishes the miss.
CREATE TABLE deadline (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    dag_run_id bigint NOT NULL,
    task_id text,
    name text NOT NULL,
    due_at timestamptz NOT NULL,
    met_at timestamptz,
    missed_at timestamptz,
    missed_seq integer,
    CHECK (met_at IS NULL OR missed_at IS NULL)
);
CREATE INDEX deadline_run ON deadline (dag_run_id);
CREATE INDEX deadline_due ON deadline ((dag_run_id % 16), due_at) WHERE met_at IS NULL AND missed_at IS NULL;
CREATE INDEX deadline_missed ON deadline (id) WHERE missed_at IS NOT NULL;

-- One row per receiver of an event, which `about` and `seq` name; `delivery_id` is the same at every try. `due_at` is when a
-- daemon claims it: at once, for another try, or because the daemon that sent it has died. A notification about a DAG has, in
-- place of a run, the `version_id` that names its receivers; its `seq` need not be unique, because the decision is written in the
-- same transaction.
CREATE TABLE notification (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    delivery_id uuid NOT NULL DEFAULT gen_random_uuid(),
    dag_run_id bigint,
    version_id bigint,
    about text NOT NULL CHECK (about IN ('run', 'task', 'dag')),
    seq integer NOT NULL,
    kind text NOT NULL,
    receiver_id uuid NOT NULL,
    receiver jsonb NOT NULL,
    context jsonb NOT NULL,
    state notification_state NOT NULL DEFAULT 'pending',
    tries integer NOT NULL DEFAULT 0,
    reason text NOT NULL DEFAULT '',
    owner uuid,
    host text,
    created_at timestamptz NOT NULL DEFAULT now(),
    due_at timestamptz NOT NULL DEFAULT now() - interval '1 s',
    ended_at timestamptz,
    UNIQUE (dag_run_id, about, seq, receiver_id),
    CONSTRAINT notification_subject_check CHECK (num_nonnulls(dag_run_id, version_id) = 1)
) WITH (fillfactor = 80);
CREATE INDEX notification_due ON notification (kind, due_at) WHERE state IN ('pending', 'sending');
CREATE INDEX notification_failed ON notification (id) WHERE state = 'failed';
CREATE INDEX notification_version ON notification (version_id) WHERE version_id IS NOT NULL;

-- Messages to Kafka, and the audit log -----------------------------------------------------------------------------------

-- A row is deleted after the broker has acknowledged it. The relay has no cursor, because ids are given before their rows become
-- visible.
CREATE TABLE outbox (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    shard smallint NOT NULL,
    kind text NOT NULL,
    key text NOT NULL,
    event_id text NOT NULL,
    time timestamptz NOT NULL,
    payload bytea NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000);

-- What users and operators changed.
CREATE TABLE audit_log (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT now(),
    who text NOT NULL,
    what text NOT NULL,
    object text NOT NULL,
    details jsonb NOT NULL DEFAULT '{}'
);
