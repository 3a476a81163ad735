-- The ledger in months, the first half: what takes a moment whatever there is. `0015_ledger_months.sql` says what it is for.

-- How many events made a run: known also when the ledger has forgotten them. Not on record for runs of earlier versions.
ALTER TABLE dag_run ADD COLUMN events integer;

-- What there is goes into a partition of its own. That it belongs there is checked by the next migration, which makes nobody wait.
ALTER TABLE dataset_event ADD CONSTRAINT ledger_first CHECK (id < 2001000000000000) NOT VALID;
ALTER TABLE dataset_event_arrival ADD CONSTRAINT ledger_first CHECK (id < 2001000000000000) NOT VALID;
ALTER TABLE discarded_dataset_event ADD CONSTRAINT ledger_first CHECK (dataset_event_id < 2001000000000000) NOT VALID;
ALTER TABLE dagrun_dataset_event ADD CONSTRAINT ledger_first CHECK (dataset_event_id < 2001000000000000) NOT VALID;
