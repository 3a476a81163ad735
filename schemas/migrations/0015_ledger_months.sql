-- The ledger in months: events, what became of them, and their arrivals, each in partitions by the id of the event. An id begins with
-- the month in which it was given: 2612000000000001 is the first event of December 2026. So whoever knows an event knows its partition,
-- and an event never waits for one: ids of a month are given once its partition is there, until then those of the month before.
--
-- Reading the tables once to check them holds up no writer. After that everybody waits for the ledger while the tables get their new
-- names: some milliseconds, whatever is in them. Nothing is copied.

ALTER TABLE dataset_event VALIDATE CONSTRAINT ledger_first;
ALTER TABLE dataset_event_arrival VALIDATE CONSTRAINT ledger_first;
ALTER TABLE discarded_dataset_event VALIDATE CONSTRAINT ledger_first;
ALTER TABLE dagrun_dataset_event VALIDATE CONSTRAINT ledger_first;

LOCK TABLE dataset_event, dataset_event_arrival, discarded_dataset_event, dagrun_dataset_event IN ACCESS EXCLUSIVE MODE;

ALTER TABLE dataset_event RENAME TO dataset_event_first;
ALTER INDEX dataset_event_pkey RENAME TO dataset_event_first_pkey;
ALTER INDEX dataset_event_dataset RENAME TO dataset_event_first_dataset;
ALTER TABLE dataset_event_arrival RENAME TO dataset_event_arrival_first;
ALTER INDEX dataset_event_arrival_pkey RENAME TO dataset_event_arrival_first_pkey;
ALTER TABLE discarded_dataset_event RENAME TO discarded_dataset_event_first;
ALTER INDEX discarded_dataset_event_pkey RENAME TO discarded_dataset_event_first_pkey;
ALTER TABLE dagrun_dataset_event RENAME TO dagrun_dataset_event_first;
ALTER INDEX dagrun_dataset_event_pkey RENAME TO dagrun_dataset_event_first_pkey;
ALTER INDEX dagrun_dataset_event_run RENAME TO dagrun_dataset_event_first_run;

DO $$
DECLARE
    last bigint;
    was_given boolean;
BEGIN
    SELECT last_value, is_called INTO last, was_given FROM dataset_event_id_seq;
    ALTER TABLE dataset_event_first ALTER id DROP IDENTITY;
    ALTER TABLE dataset_event_arrival_first ALTER id DROP IDENTITY;
    CREATE SEQUENCE dataset_event_id_seq;
    PERFORM setval('dataset_event_id_seq', last, was_given);
END
$$;

CREATE TABLE dataset_event (
    id bigint NOT NULL DEFAULT nextval('dataset_event_id_seq'),
    dataset_id bigint NOT NULL,
    source text NOT NULL,
    event_id text NOT NULL,
    extra jsonb NOT NULL,
    occurred_at timestamptz NOT NULL,
    received_at timestamptz NOT NULL DEFAULT now(),
    arrival_id bigint,
    PRIMARY KEY (id)
) PARTITION BY RANGE (id);
CREATE INDEX dataset_event_dataset ON dataset_event (dataset_id, id);
ALTER SEQUENCE dataset_event_id_seq OWNED BY dataset_event.id;

-- An arrival has the id of the last event that it is about, so that no partition has events whose arrival is in an older one.
CREATE TABLE dataset_event_arrival (
    id bigint NOT NULL DEFAULT nextval('dataset_event_id_seq'),
    xact xid8 NOT NULL DEFAULT pg_current_xact_id(),
    seen pg_snapshot NOT NULL DEFAULT pg_current_snapshot(),
    PRIMARY KEY (id)
) PARTITION BY RANGE (id);

CREATE TABLE discarded_dataset_event (
    dag_id text COLLATE "C" NOT NULL,
    dataset_event_id bigint NOT NULL,
    reason text NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (dag_id, dataset_event_id)
) PARTITION BY RANGE (dataset_event_id);

CREATE TABLE dagrun_dataset_event (
    dag_id text COLLATE "C" NOT NULL,
    dataset_event_id bigint NOT NULL,
    dag_run_id bigint NOT NULL,
    PRIMARY KEY (dag_id, dataset_event_id)
) PARTITION BY RANGE (dataset_event_id);
CREATE INDEX dagrun_dataset_event_run ON dagrun_dataset_event (dag_run_id);

ALTER TABLE dataset_event ATTACH PARTITION dataset_event_first FOR VALUES FROM (MINVALUE) TO (2001000000000000);
ALTER TABLE dataset_event_arrival ATTACH PARTITION dataset_event_arrival_first FOR VALUES FROM (MINVALUE) TO (2001000000000000);
ALTER TABLE discarded_dataset_event ATTACH PARTITION discarded_dataset_event_first FOR VALUES FROM (MINVALUE) TO (2001000000000000);
ALTER TABLE dagrun_dataset_event ATTACH PARTITION dagrun_dataset_event_first FOR VALUES FROM (MINVALUE) TO (2001000000000000);

-- Year and month, as ids begin with them; 0: what came before there were months. `thinned`: only what still waited, or was at work, when
-- the month was over for the retention, with all its fates; `dropped`: nothing.
CREATE TYPE ledger_state AS ENUM ('whole', 'thinned', 'dropped');
CREATE TABLE ledger_month (
    month integer PRIMARY KEY,
    state ledger_state NOT NULL DEFAULT 'whole',
    made_at timestamptz NOT NULL DEFAULT now(),
    retired_at timestamptz,
    was_empty boolean
);
INSERT INTO ledger_month (month) VALUES (0);

-- Make the partitions of a month, once: a month that was dropped does not come back. Holds up nobody.
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

-- From now on ids are of this month, unless they are of it or of a later one already. Never back: ids would be given twice.
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

-- Drop a month that is over, whose events all came before `cutoff`, in one transaction: all of it, or all but the events that still
-- wait for a DAG or were taken by a run that has not ended. These stay with their fates and arrivals, at most so many: otherwise the
-- month stays whole. A thinned month is dropped when nothing of it waits, and nothing of it was discarded, or taken by a run that ended,
-- since `cutoff`.
-- Returns what there is of it then, and how many events must stay: where that has changed, or where these are too many.
--
-- Nobody waits while it looks and copies, but who newly wants the history of a dataset, and who decides about one of these events. Then
-- everybody waits for the ledger, for the moment in which the tables change places; and if that cannot begin at once, it gives up.
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
        EXECUTE format('INSERT INTO dataset_event_kept SELECT * FROM %I WHERE id = ANY ($1)', 'dataset_event_' || name) USING kept;
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
