-- The server of a simulation does not crash: what it writes needs no log. A table may only become unlogged before the tables that it
-- refers to, so they are tried until none is left that may.
DO $$
DECLARE
    found regclass;
    changed boolean := true;
BEGIN
    WHILE changed LOOP
        changed := false;
        FOR found IN
            SELECT oid FROM pg_class
            WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND relpersistence = 'p'
        LOOP
            BEGIN
                EXECUTE format('ALTER TABLE %s SET UNLOGGED', found);
                changed := true;
            EXCEPTION WHEN invalid_table_definition THEN
                NULL;
            END;
        END LOOP;
    END LOOP;
END
$$;
