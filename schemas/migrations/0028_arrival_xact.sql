ALTER TABLE dataset_event_arrival
    ALTER COLUMN xact SET DEFAULT ledger_xact(),
    ALTER COLUMN seen SET DEFAULT ledger_snapshot();
