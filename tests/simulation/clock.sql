-- The clock of the simulation in the place of the server's: found before pg_catalog's by everything that asks for the time, the
-- defaults of columns too. A sequence, since it moves outside of transactions: every session sees it, and no rollback undoes it.
-- Unlogged, so that moving it is no transaction that has to be committed.
CREATE UNLOGGED SEQUENCE simulated_time;

CREATE FUNCTION clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
RETURN timestamptz 'epoch' + pg_sequence_last_value('simulated_time'::regclass) * interval '1 microsecond';

-- Of a transaction it is when that began.
CREATE FUNCTION now() RETURNS timestamptz LANGUAGE sql VOLATILE
RETURN coalesce(nullif(current_setting('simulated.begun_at', true), '')::timestamptz, public.clock_timestamp());
