ALTER TABLE dataset_subscription ALTER COLUMN began_in SET DEFAULT ledger_xact();
