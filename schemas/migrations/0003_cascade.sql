-- Backfills that cascade along datasets.
--   was_cancelled        also if failed dates were retried since
--   stages               the consumers of the DAG's outlets, direct and indirect, each after the DAGs that it consumes from
--   stage                0: the dates of the DAG itself; n: runs of the nth of `stages`
--   stage_version_id     the version that the runs of the stage get
--   scanned, scan_until  the last ordinal whose consumers were found, and that of the last date of earlier stages
ALTER TABLE backfill
    DROP CONSTRAINT backfill_outlets_check,
    ADD CONSTRAINT backfill_outlets_check CHECK (outlets IN ('events', 'none', 'cascade')),
    ADD COLUMN was_cancelled boolean NOT NULL DEFAULT false,
    ADD COLUMN stages jsonb NOT NULL DEFAULT '[]',
    ADD COLUMN stage integer NOT NULL DEFAULT 0,
    ADD COLUMN stage_version_id bigint,
    ADD COLUMN scanned integer NOT NULL DEFAULT 0,
    ADD COLUMN scan_until integer NOT NULL DEFAULT 0;

-- `is_again`: the run existed before the backfill. `is_whole`: a retry clears all its tasks. The date of a consumer's run is that by
-- which its DAG orders its runs, and may repeat.
ALTER TABLE backfill_date
    DROP CONSTRAINT backfill_date_backfill_id_logical_date_key,
    ADD COLUMN is_again boolean NOT NULL DEFAULT false,
    ADD COLUMN is_whole boolean NOT NULL DEFAULT false;
DROP INDEX backfill_date_run;
CREATE UNIQUE INDEX backfill_date_run ON backfill_date (dag_run_id, backfill_id) WHERE dag_run_id IS NOT NULL;

-- The events of outlets, by their ids, which name the run.
CREATE INDEX dataset_event_outlet ON dataset_event (event_id) WHERE source = 'tidegate';
