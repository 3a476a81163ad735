-- How often events that had been recorded before were queued for a DAG: whoever knows from which event on something waits for it
-- knows it only for as long as this stays.
ALTER TABLE dag ADD COLUMN history_seq integer NOT NULL DEFAULT 0;
