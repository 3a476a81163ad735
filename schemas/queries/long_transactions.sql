-- name: open_for
-- Vacuum cannot remove rows that were deleted after the oldest open transaction began.
SELECT
    coalesce(pid::text, 'prepared') || ' ' || xact_start::text AS id, coalesce(usename, '') AS role,
    coalesce(application_name, '') AS application, coalesce(host(client_addr), '') AS address,
    extract(epoch FROM clock_timestamp() - xact_start)::double precision AS seconds
FROM (
    SELECT pid, usename, application_name, client_addr, xact_start
    FROM pg_stat_activity
    WHERE datname = current_database() AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)
    UNION ALL
    SELECT NULL, owner, gid, NULL, prepared FROM pg_prepared_xacts WHERE database = current_database()
) AS transaction
WHERE xact_start < clock_timestamp() - make_interval(secs => $1)
ORDER BY xact_start
