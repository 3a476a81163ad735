-- The daemons that live: who has shown life for no longer ago than it says that its leases last. Everybody judges by this alone.
CREATE VIEW live_job AS
SELECT id, host, pid, version, started_at, heartbeat_at, settings, away
FROM job
WHERE heartbeat_at > clock_timestamp() - make_interval(secs => coalesce((settings ->> 'lease_ttl_s')::double precision, 10));
