-- The tasks of the first date do not wait for the run before it.
ALTER TABLE backfill ADD COLUMN ignore_first_depends_on_past boolean NOT NULL DEFAULT false;
