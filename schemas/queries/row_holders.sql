-- name: sessions
-- Sessions that hold rows or whole tables in a transaction that is older than $1 s, or than $2 s if it is one of ours; the oldest
-- first. The role may not see the times of others: they are NULL, and daemons are then left out. `dags` are the first DAGs among
-- the rows.
SELECT
    holder.pid, holder.role, holder.application, holder.address, holder.since, holder.query_since, holder.tables,
    ARRAY(SELECT dag_id FROM dag WHERE dag.xmax = ANY (holder.xids) ORDER BY dag_id LIMIT $3) AS dags, holder.xids::text[] AS xids
FROM (
    SELECT
        coalesce(session.pid, 0) AS pid, coalesce(session.usename, prepared.owner, '') AS role,
        coalesce(session.application_name, 'the prepared transaction ' || prepared.gid, '') AS application,
        coalesce(host(session.client_addr), '') AS address, coalesce(session.xact_start, prepared.prepared) AS since,
        session.query_start AS query_since, held.tables, ARRAY[own.transactionid] AS xids
    FROM pg_locks AS own
    CROSS JOIN LATERAL (
        SELECT array_agg(DISTINCT relname::text ORDER BY relname::text) AS tables
        FROM pg_locks AS held JOIN pg_class AS locked ON locked.oid = held.relation
        WHERE held.virtualtransaction = own.virtualtransaction AND held.locktype = 'relation' AND held.granted
          AND held.mode <> 'AccessShareLock' AND locked.relkind IN ('r', 'p')
          AND held.database = (SELECT oid FROM pg_database WHERE datname = current_database())
          AND locked.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'dag'::regclass)
    ) AS held
    LEFT JOIN pg_stat_activity AS session ON session.pid = own.pid
    LEFT JOIN pg_prepared_xacts AS prepared ON own.pid IS NULL AND prepared.transaction = own.transactionid
    WHERE own.locktype = 'transactionid' AND own.granted AND own.mode = 'ExclusiveLock'
      AND own.pid IS DISTINCT FROM pg_backend_pid() AND held.tables IS NOT NULL
) AS holder
WHERE CASE
    WHEN starts_with(holder.application, 'tidegate') THEN holder.since < clock_timestamp() - make_interval(secs => $2)
    ELSE coalesce(holder.since < clock_timestamp() - make_interval(secs => $1), true)
END
ORDER BY holder.since, holder.pid

-- name: of_dag
-- What the transactions $2 hold of a DAG: its row, or that of an unfinished run.
SELECT held.what, held.xid
FROM (
    SELECT 'DAG ' || dag_id AS what, xmax::text AS xid FROM dag WHERE dag_id = $1
    UNION ALL
    SELECT 'run ' || run_id, xmax::text FROM dag_run WHERE dag_id = $1 AND state IN ('queued', 'running')
) AS held
WHERE held.xid = ANY ($2::text[])
LIMIT 1
