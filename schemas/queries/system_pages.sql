-- name: daemons
-- The live daemons, oldest first, with the number of their leases.
SELECT job.host, job.pid, job.version, job.started_at, job.heartbeat_at, count(lease.key) AS leases
FROM live_job AS job
LEFT JOIN lease ON lease.owner = job.id
GROUP BY job.id, job.host, job.pid, job.version, job.started_at, job.heartbeat_at
ORDER BY job.started_at, job.id

-- name: duties
-- The duties by kind, partitions by topic: how many there are, have a live owner, and are halted; and the next offsets together.
SELECT
    lease.kind, coalesce(substring(lease.key FROM '^(.*)/'), '') AS topic, count(*) AS number, count(job.id) AS owned,
    count(*) FILTER (WHERE lease.halted) AS halted, sum(lease.next_offset)::bigint AS offsets
FROM lease
LEFT JOIN live_job AS job ON job.id = lease.owner
GROUP BY 1, 2
ORDER BY 1, 2

-- name: relay
-- The events that wait to be published, counted up to $1, and the time of the first of them.
SELECT
    (SELECT count(*) FROM (SELECT FROM outbox LIMIT $1) AS counted) AS events,
    (SELECT in_calendar(time) FROM outbox ORDER BY id LIMIT 1) AS since

-- name: migrations
SELECT name, applied_at FROM schema_migration ORDER BY name

-- name: server
SELECT
    current_setting('server_version') AS version, current_database()::text AS database, pg_is_in_recovery() AS is_standby,
    pg_database_size(current_database()) AS bytes

-- name: tables
-- The largest tables, partitions together with their table, with their indexes.
SELECT
    coalesce(part.inhparent, stored.oid)::regclass::text AS name, sum(pg_total_relation_size(stored.oid))::bigint AS bytes,
    sum(greatest(stored.reltuples, 0))::bigint AS rows
FROM pg_class AS stored
LEFT JOIN pg_inherits AS part ON part.inhrelid = stored.oid
WHERE stored.relkind = 'r' AND stored.relnamespace = current_schema()::regnamespace
GROUP BY 1
ORDER BY 2 DESC, 1
LIMIT $1
