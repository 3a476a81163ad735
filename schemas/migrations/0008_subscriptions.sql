-- Who waited for which dataset when an event came: what the ledger's fates are counted against.

-- One row for each statement that wrote events: the transaction it was part of, and which ones it saw the work of.
CREATE TABLE dataset_event_arrival (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    xact xid8 NOT NULL DEFAULT pg_current_xact_id(),
    seen pg_snapshot NOT NULL DEFAULT pg_current_snapshot()
);

-- Of events that came before this was recorded there is none.
ALTER TABLE dataset_event ADD COLUMN arrival_id bigint;

-- A DAG waits for a dataset from one transaction to another; and, where it wanted the history, for what had happened
-- since `history_since` and come before. Rows of `dag_schedule_dataset_reference` have one without an end here.
CREATE TABLE dataset_subscription (
    dataset_id bigint NOT NULL,
    dag_id text COLLATE "C" NOT NULL,
    began_in xid8 NOT NULL DEFAULT pg_current_xact_id(),
    ended_in xid8,
    history_since timestamptz,
    PRIMARY KEY (dataset_id, dag_id, began_in)
);
INSERT INTO dataset_subscription (dataset_id, dag_id) SELECT dataset_id, dag_id FROM dag_schedule_dataset_reference;

CREATE FUNCTION was_subscribed(
    began_in xid8, ended_in xid8, history_since timestamptz, xact xid8, seen pg_snapshot, occurred_at timestamptz
) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN
    (
        coalesce(began_in = xact OR pg_visible_in_snapshot(began_in, seen), false)
        OR coalesce(occurred_at >= history_since, false)
    )
    AND NOT coalesce(pg_visible_in_snapshot(ended_in, seen), false);
