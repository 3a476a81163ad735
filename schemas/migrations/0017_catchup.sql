-- The end of the catchup interval after the last late timed run of a DAG: until then, no other late one starts. It was `due_at`, which
-- also has the wake-ups for anything else.
ALTER TABLE dag ADD COLUMN catchup_until timestamptz;
