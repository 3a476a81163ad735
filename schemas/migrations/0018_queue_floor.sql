-- The transaction that last queued events for a DAG that had been recorded before: whoever knows from which event on something waits
-- for it knows it only for as long as this stays. A count would begin anew with a DAG that is deleted and made again.
ALTER TABLE dag ADD COLUMN history_in bigint NOT NULL DEFAULT 0;
