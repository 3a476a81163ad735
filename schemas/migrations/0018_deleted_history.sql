-- When a portion of the history of the DAG was deleted last: runs and outcomes of events from before are missing. NULL: none was.
ALTER TABLE dag ADD COLUMN history_deleted_at timestamptz;
