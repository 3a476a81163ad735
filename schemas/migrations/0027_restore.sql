-- What a restored or emptied database is told from.
--   identity        the id of the installation, which a copy of the database keeps; NULL until the first daemon connects
--   home            the cluster and the database that daemons worked with last; another one is a copy
--   restores        how many restores were settled: receipts of before the last one prove nothing
--   xact_shift      is added to the transaction ids of the cluster, so that they follow those of the cluster before
--   held_since      no daemon works with the database until the restore is settled
--   lost_since      the newest commit that the database had when it was held; NULL if it had none
--   files_read_at   when every file of the DAG folder had been applied once: datasets are not read from Kafka before
ALTER TABLE installation
    ADD COLUMN identity text,
    ADD COLUMN home text,
    ADD COLUMN restores integer NOT NULL DEFAULT 0,
    ADD COLUMN xact_shift bigint NOT NULL DEFAULT 0,
    ADD COLUMN held_since timestamptz,
    ADD COLUMN hold_reason text,
    ADD COLUMN lost_since timestamptz,
    ADD COLUMN files_read_at timestamptz;

-- The id of this transaction in the order of all clusters that the database was in.
CREATE FUNCTION ledger_xact() RETURNS xid8 LANGUAGE sql STABLE PARALLEL UNSAFE
    RETURN (SELECT (pg_current_xact_id()::text::bigint + xact_shift)::text::xid8 FROM installation);

-- The snapshot of the calling statement, in the same order: STABLE, so that it is not a later one.
CREATE FUNCTION ledger_snapshot() RETURNS pg_snapshot LANGUAGE sql STABLE PARALLEL UNSAFE
    RETURN (
        SELECT CASE xact_shift WHEN 0 THEN pg_current_snapshot() ELSE concat_ws(
            ':',
            pg_snapshot_xmin(pg_current_snapshot())::text::bigint + xact_shift,
            pg_snapshot_xmax(pg_current_snapshot())::text::bigint + xact_shift,
            (
                SELECT coalesce(string_agg((active::text::bigint + xact_shift)::text, ',' ORDER BY active), '')
                FROM pg_snapshot_xip(pg_current_snapshot()) AS active
            )
        )::pg_snapshot END
        FROM installation
    );

-- The ends of attempts that the topic has and a restored database does not know: an attempt with one is not submitted again.
CREATE TABLE restored_end (
    submission_id uuid PRIMARY KEY,
    body jsonb NOT NULL
);
