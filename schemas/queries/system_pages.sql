-- name: daemons
-- The live daemons, oldest first, with the leases that each owns.
SELECT
    job.host, job.pid, job.started_at, job.heartbeat_at, job.settings AS terms, job.away, job.id, job.version,
    ARRAY(SELECT ARRAY[lease.kind, lease.key] FROM lease WHERE lease.owner = job.id ORDER BY lease.kind, lease.key) AS owns
FROM live_job AS job
WHERE $1::timestamptz IS NULL OR (job.started_at, job.id) > ($1, $2::uuid)
ORDER BY job.started_at, job.id
LIMIT $3

-- name: leases
-- The leases by kind, of partitions by topic: how many there are, are halted, and of the others have a live owner; and the sum
-- of next offsets.
SELECT
    lease.kind, coalesce(substring(lease.key FROM '^(.*)/'), '') AS topic, count(*) AS number,
    count(job.id) FILTER (WHERE NOT lease.halted) AS owned, count(*) FILTER (WHERE lease.halted) AS halted,
    sum(lease.next_offset)::bigint AS offsets
FROM lease
LEFT JOIN live_job AS job ON job.id = lease.owner
GROUP BY 1, 2
ORDER BY 1, 2

-- name: partitions
-- The partitions by topic and number, those after $1, with their live owners. Of a topic, a longer key has a greater number.
SELECT lease.key AS partition, job.host, job.pid, coalesce(lease.next_offset, 0) AS next_offset, lease.halted
FROM lease
LEFT JOIN live_job AS job ON job.id = lease.owner
WHERE lease.kind = 'partition' AND (
    $1::text IS NULL
    OR (coalesce(substring(lease.key FROM '^.*/'), ''), length(lease.key), lease.key)
        > (coalesce(substring($1 FROM '^.*/'), ''), length($1), $1)
)
ORDER BY coalesce(substring(lease.key FROM '^.*/'), ''), length(lease.key), lease.key
LIMIT $2

-- name: months
-- The oldest month with events, and how many months were dropped; 0 is a month before all.
SELECT
    coalesce(min(month) FILTER (WHERE state <> 'dropped'), 0) AS oldest, count(*) FILTER (WHERE state = 'dropped') AS dropped,
    max(retired_at) AS retired_at
FROM ledger_month
WHERE month > 0

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

-- name: unconfirmed
-- The attempts that were killed, within $1 seconds, without a confirmation that their work has ended: of the newest failed
-- runs. A later try has ended that work first.
SELECT run.dag_id, run.run_id, task.task_id, map_index(attempt.task_index) AS map_index, attempt.reason
FROM (
    SELECT id, dag_id, run_id
    FROM dag_run WHERE state = 'failed' AND end_date > now() - make_interval(secs => $1)
    ORDER BY end_date DESC LIMIT 500
) AS run
JOIN submission AS attempt ON attempt.dag_run_id = run.id AND attempt.state = 'lost' AND attempt.desired_state = 'kill'
JOIN task_instance AS task ON (task.dag_run_id, task.task_index) = (attempt.dag_run_id, attempt.task_index)
WHERE NOT EXISTS (
    SELECT FROM submission AS later
    WHERE (later.dag_run_id, later.task_index) = (attempt.dag_run_id, attempt.task_index)
      AND later.try_number > attempt.try_number AND later.started_at IS NOT NULL
)
ORDER BY attempt.ended_at
LIMIT $2

-- name: spark_needs
-- The clusters of Spark that tasks of DAGs which may run need, by backend, with the number of these DAGs and one of them. $1 are
-- kinds of tasks, $2 their backends. A damaged version has no tasks.
SELECT known.backend, coalesce(task ->> 'cluster', '') AS cluster, count(DISTINCT dag.dag_id) AS dags, min(dag.dag_id) AS dag_id
FROM dag
JOIN dag_version AS version ON version.id = dag.version_id
CROSS JOIN LATERAL jsonb_array_elements(
    CASE jsonb_typeof(version.spec -> 'tasks') WHEN 'array' THEN version.spec -> 'tasks' ELSE '[]' END
) AS task
JOIN unnest($1::text[], $2::text[]) AS known (kind, backend) ON known.kind = task ->> 'kind'
WHERE NOT dag.is_stale AND NOT dag.is_stopped
GROUP BY 1, 2
ORDER BY 1, 2

-- name: unknown_clusters
-- The Spark clusters that attempts wait for and no live daemon knows, by backend, with their attempts; as in submissions.stuck.
SELECT cluster, backend, count(*) AS tasks
FROM submission
WHERE state = 'intent' AND desired_state = 'run' AND cluster IS NOT NULL
  AND EXISTS (SELECT FROM live_job)
  AND NOT EXISTS (
      SELECT FROM live_job
      WHERE coalesce(live_job.settings -> 'clusters' -> submission.backend ? submission.cluster, true)
  )
GROUP BY cluster, backend
ORDER BY cluster, backend
