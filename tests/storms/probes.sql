-- What the checker cannot see afterwards is written down while it happens. Rows of transactions that are rolled back
-- disappear with them, so every row here was committed.

-- What only Postgres refuses: a batch with such an id is bisected.
ALTER TABLE event_dedupe ADD CONSTRAINT storm_refuses CHECK (event_id NOT LIKE 'refused-%');

-- Every time that an event was about to be remembered, also where it was known already.
CREATE TABLE storm_seen (source text NOT NULL, event_id text NOT NULL);

CREATE FUNCTION storm_see() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO storm_seen VALUES (NEW.source, NEW.event_id);
    RETURN NEW;
END $$;
CREATE TRIGGER storm_see BEFORE INSERT ON event_dedupe FOR EACH ROW EXECUTE FUNCTION storm_see();

CREATE TABLE storm_moved_back (key text NOT NULL, from_offset bigint NOT NULL, to_offset bigint NOT NULL);

CREATE FUNCTION storm_watch_offsets() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO storm_moved_back VALUES (NEW.key, OLD.next_offset, NEW.next_offset);
    RETURN NULL;
END $$;
CREATE TRIGGER storm_watch_offsets AFTER UPDATE ON lease FOR EACH ROW
WHEN (NEW.next_offset < OLD.next_offset) EXECUTE FUNCTION storm_watch_offsets();

-- Admissions are one after the other under the lock of the pool, so each sees all that is occupied.
CREATE TABLE storm_pool (occupied integer NOT NULL, slots integer NOT NULL);

CREATE FUNCTION storm_watch_pool() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO storm_pool
    SELECT occupied, slots
    FROM (SELECT count(*) AS occupied FROM task_instance WHERE pool = 'default_pool' AND state IN ('queued', 'running')) AS now
    JOIN pool ON name = 'default_pool'
    WHERE occupied >= slots AND slots >= 0
      AND NOT EXISTS (SELECT FROM storm_pool WHERE storm_pool.occupied >= now.occupied);
    RETURN NULL;
END $$;
CREATE TRIGGER storm_watch_pool AFTER UPDATE ON task_instance FOR EACH STATEMENT EXECUTE FUNCTION storm_watch_pool();

-- Looked at when the transaction is over but for its end.
CREATE TABLE storm_overrun (dag_id text NOT NULL, running integer NOT NULL, allowed integer NOT NULL);

CREATE FUNCTION storm_watch_runs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO storm_overrun
    SELECT NEW.dag_id, running, allowed
    FROM (SELECT count(*) AS running FROM dag_run WHERE dag_id = NEW.dag_id AND state = 'running') AS now,
         (SELECT coalesce((spec ->> 'max_active_runs')::integer, 16) AS allowed
          FROM dag JOIN dag_version ON dag_version.id = dag.version_id WHERE dag.dag_id = NEW.dag_id) AS version
    WHERE running > allowed;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER storm_watch_runs AFTER INSERT OR UPDATE ON dag_run DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW WHEN (NEW.state = 'running') EXECUTE FUNCTION storm_watch_runs();
