-- Beside the probes of every storm: damaged versions, which can be mended again, and each time that a DAG was held or released.

CREATE TABLE storm_damaged (version_id bigint PRIMARY KEY, spec jsonb NOT NULL);

CREATE FUNCTION storm_damaged(spec jsonb, how text) RETURNS jsonb LANGUAGE sql IMMUTABLE RETURN CASE how
    WHEN 'nothing' THEN '{}'
    WHEN 'unknown_field' THEN spec || '{"surprise": 1}'
    WHEN 'bad_tasks' THEN jsonb_set(spec, '{tasks}', '7')
    WHEN 'bad_schedule' THEN jsonb_set(spec, '{schedule}', '{"op": "xor"}')
    WHEN 'bad_zone' THEN jsonb_set(spec, '{timetable,timezone}', '"Mars/Base"')
END;

-- A version whose description says so is damaged before any daemon has read it.
CREATE FUNCTION storm_damage_new() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO storm_damaged VALUES (NEW.id, NEW.spec);
    NEW.spec := storm_damaged(NEW.spec, split_part(NEW.spec ->> 'description', ' ', 2));
    RETURN NEW;
END $$;
CREATE TRIGGER storm_damage_new BEFORE INSERT ON dag_version FOR EACH ROW
WHEN (NEW.spec ->> 'description' LIKE 'damaged %') EXECUTE FUNCTION storm_damage_new();

-- The current version of a DAG, which some daemons have read.
CREATE FUNCTION storm_damage(of_dag text, how text) RETURNS void LANGUAGE sql AS $$
    INSERT INTO storm_damaged
    SELECT version.id, version.spec FROM dag JOIN dag_version AS version ON version.id = dag.version_id WHERE dag.dag_id = of_dag
    ON CONFLICT DO NOTHING;
    UPDATE dag_version SET spec = storm_damaged(dag_version.spec, how)
    FROM dag WHERE dag.dag_id = of_dag AND dag_version.id = dag.version_id;
$$;

CREATE FUNCTION storm_mend(of_dag text) RETURNS void LANGUAGE sql AS $$
    UPDATE dag_version SET spec = kept.spec FROM storm_damaged AS kept WHERE kept.version_id = dag_version.id AND dag_id = of_dag;
    DELETE FROM storm_damaged USING dag_version WHERE dag_version.id = version_id AND dag_id = of_dag;
$$;

CREATE TABLE storm_hold (
    dag_id text NOT NULL, is_held boolean NOT NULL, reason text, at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE FUNCTION storm_watch_holds() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO storm_hold VALUES (NEW.dag_id, NEW.held_since IS NOT NULL, NEW.hold_reason);
    RETURN NULL;
END $$;
CREATE TRIGGER storm_watch_holds AFTER UPDATE ON dag FOR EACH ROW
WHEN ((OLD.held_since IS NULL) <> (NEW.held_since IS NULL)) EXECUTE FUNCTION storm_watch_holds();
