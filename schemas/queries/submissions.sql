-- name: refs
SELECT
    submission.submission_id, submission.dag_run_id, submission.task_index, submission.try_number, run.dag_id, run.version_id
FROM submission
JOIN dag_run AS run ON run.id = submission.dag_run_id
WHERE submission.submission_id = ANY ($1::uuid[])

-- name: read_with_tasks
-- Attempts and their tasks; then other task instances. The tries of a task have no gaps.
SELECT
    task.dag_run_id, task.task_index AS index, task.state, task.try_number, task.max_tries, task.awaited, task.success,
    task.failed, task.skipped, task.upstream_failed, task.waits_for_past, task.next_try_at, task.elements,
    attempt.submission_id, attempt.try_number, attempt.state,
    attempt_token((SELECT secret FROM installation), attempt.submission_id) AS token, attempt.kill_reason,
    attempt.kill_cause,
    CASE WHEN attempt.kill_cause IS NULL THEN 0 ELSE (
        SELECT attempt.try_number - 1 - coalesce(max(earlier.try_number), 0) FROM submission AS earlier
        WHERE (earlier.dag_run_id, earlier.task_index) = (attempt.dag_run_id, attempt.task_index)
          AND earlier.try_number < attempt.try_number
          AND (earlier.kill_cause IS DISTINCT FROM attempt.kill_cause OR earlier.state NOT IN ('killed', 'lost'))
    ) END AS killed_before,
    attempt.host, attempt.backend
FROM submission AS attempt
JOIN task_instance AS task USING (dag_run_id, task_index)
WHERE attempt.submission_id = ANY ($1::uuid[])
UNION ALL
SELECT
    task.dag_run_id, task.task_index, task.state, task.try_number, task.max_tries, task.awaited, task.success,
    task.failed, task.skipped, task.upstream_failed, task.waits_for_past, task.next_try_at, task.elements,
    NULL, 0, NULL, NULL, NULL, NULL, 0, NULL, NULL
FROM unnest($2::bigint[], $3::integer[]) AS target (dag_run_id, task_index)
JOIN task_instance AS task USING (dag_run_id, task_index)

-- name: insert_submissions
INSERT INTO submission (submission_id, dag_run_id, task_index, try_number, backend, cluster, state)
SELECT *, 'intent' FROM unnest($1::uuid[], $2::bigint[], $3::integer[], $4::integer[], $5::text[], $6::text[])

-- name: end_submissions
UPDATE submission
SET state = change.state,
    reason = change.reason,
    exit_code = change.exit_code,
    started_at = coalesce(change.started_at, submission.started_at),
    ended_at = change.ended_at,
    log_path = change.log_path,
    log_tail = change.log_tail
FROM unnest(
    $1::uuid[], $2::submission_state[], $3::text[], $4::integer[], $5::timestamptz[], $6::timestamptz[], $7::text[], $8::text[]
) AS change (submission_id, state, reason, exit_code, started_at, ended_at, log_path, log_tail)
WHERE submission.submission_id = change.submission_id

-- name: accept
-- The state is compared as text, so that the planner does not use the index of open attempts.
UPDATE submission
SET state = 'accepted',
    handle = change.handle,
    started_at = change.at,
    heartbeat_at = change.at,
    times_out_at = change.times_out_at
FROM unnest($1::uuid[], $2::jsonb[], $3::timestamptz[], $4::timestamptz[])
    AS change (submission_id, handle, at, times_out_at)
WHERE submission.submission_id = change.submission_id AND submission.state::text = 'submitting'

-- name: strays
-- Of what runs on a host, that of attempts that have ended or are not recorded here. $2 are the tokens of the attempts, NULL if
-- unknown: those of another installation differ.
SELECT running.id, submission.handle
FROM unnest($1::uuid[], $2::text[]) AS running (id, token)
LEFT JOIN submission ON submission.submission_id = running.id
WHERE coalesce(running.token = attempt_token((SELECT secret FROM installation), running.id), true)
  AND (submission.submission_id IS NULL OR submission.ended_at IS NOT NULL)

-- name: recorded
-- Attempts that were accepted for this owner, without a kill request, and how long their tasks were ready before, in seconds.
SELECT
    submission_id,
    extract(epoch FROM started_at - (
        SELECT in_calendar(scheduled_at) FROM task_instance AS task
        WHERE (task.dag_run_id, task.task_index) = (submission.dag_run_id, submission.task_index)
    ))::float8 AS waited_s
FROM submission
WHERE submission_id = ANY ($1::uuid[]) AND owner = $2 AND state::text = 'accepted' AND desired_state = 'run'

-- name: kill
-- Requests a kill. The daemon that observes the attempt kills it and publishes its end. The first cause counts, but a task that
-- is cleared waits for its upstream after the attempt, whatever else ends it.
UPDATE submission
SET
    desired_state = 'kill',
    kill_reason = CASE WHEN doomed.cause = 'cleared' THEN doomed.reason ELSE coalesce(submission.kill_reason, doomed.reason) END,
    kill_cause = CASE WHEN doomed.cause = 'cleared' THEN doomed.cause ELSE coalesce(submission.kill_cause, doomed.cause) END
FROM unnest($1::bigint[], $2::integer[], $3::text[], $4::text[]) AS doomed (dag_run_id, task_index, reason, cause)
WHERE submission.dag_run_id = doomed.dag_run_id
  AND (doomed.task_index IS NULL OR submission.task_index = doomed.task_index)
  AND submission.ended_at IS NULL

-- name: killed_intents
-- Attempts with a kill request and without any submit.
SELECT submission_id, attempt_token((SELECT secret FROM installation), submission_id) AS token, kill_reason
FROM submission
WHERE state = 'intent' AND desired_state = 'kill' AND NOT {held dag_run_id}
LIMIT $1

-- name: claim_intents
-- `submitting` is committed before the submit: an attempt in state `intent` was never submitted. ANY of an array: a plan that was
-- made on a small table would read all attempts, and the queue again for each. $6 are the clusters that the host knows.
WITH claimed AS (
    UPDATE submission
    SET state = 'submitting', owner = $1, host = $2, submitted_at = clock_timestamp()
    WHERE submission_id = ANY (ARRAY(
        SELECT submission_id
        FROM submission
        WHERE state = 'intent' AND backend = $3 AND desired_state = 'run'
          AND submission_id <> ALL ($5::uuid[])
          AND (cluster IS NULL OR cluster = ANY ($6::text[]))
          AND NOT {held dag_run_id}
        ORDER BY created_at, dag_run_id, task_index
        LIMIT $4
        FOR UPDATE SKIP LOCKED
    ))
    RETURNING submission_id, dag_run_id, task_index, try_number, kill_reason, created_at
)
SELECT
    submission_id, dag_run_id, task_index, try_number,
    attempt_token((SELECT secret FROM installation), submission_id) AS token, kill_reason
FROM claimed
ORDER BY created_at, dag_run_id, task_index

-- name: earlier
-- The last tries before each attempt that began and did not succeed.
SELECT attempt.submission_id, before.submission_id AS earlier
FROM unnest($1::uuid[], $2::bigint[], $3::integer[], $4::integer[]) AS attempt (submission_id, dag_run_id, task_index, try_number)
JOIN submission AS before ON (before.dag_run_id, before.task_index) = (attempt.dag_run_id, attempt.task_index)
WHERE before.try_number BETWEEN attempt.try_number - $5 AND attempt.try_number - 1
  AND before.started_at IS NOT NULL AND before.state::text <> 'succeeded'

-- name: give_back
-- The attempt was not started: daemons of every host may claim it, of every one that knows its cluster $3.
UPDATE submission
SET state = 'intent', owner = NULL, host = NULL, submitted_at = NULL, cluster = coalesce($3, cluster)
WHERE submission_id = $1 AND owner = $2 AND state::text = 'submitting'

-- name: claim_abandoned
-- Submits that may have happened: their daemon is not live, or is this daemon, which is not working on them.
-- $4 is the only host that sees the submissions of this backend; NULL if every host does. The owner has to be the one that was
-- not live, as in `leases.claim`. The joins are fenced: a plan that was made on a small table would compare all rows with all.
UPDATE submission
SET owner = $1, host = $2
WHERE submission_id = ANY (ARRAY(
    SELECT abandoned.submission_id
    FROM (
        SELECT submission_id, owner
        FROM submission
        WHERE state = 'submitting' AND backend = $3
          AND (owner = $1 OR NOT EXISTS (SELECT FROM live_job WHERE live_job.id = submission.owner))
        ORDER BY created_at, dag_run_id, task_index
    ) AS seen
    CROSS JOIN LATERAL (
        SELECT submission_id
        FROM submission
        WHERE submission_id = seen.submission_id AND owner IS NOT DISTINCT FROM seen.owner AND state::text = 'submitting'
          AND ($4::text IS NULL OR host = $4)
          AND submission_id <> ALL ($5::uuid[])
          AND NOT {held dag_run_id}
        LIMIT 1
        FOR UPDATE SKIP LOCKED
    ) AS abandoned
    LIMIT 200
))
RETURNING
    submission_id, dag_run_id, task_index, try_number, attempt_token((SELECT secret FROM installation), submission_id) AS token,
    kill_reason

-- name: submitting
-- The state is compared as text, so that the planner does not use the index of open attempts. An attempt has an end if it had
-- ended before the database lost its row.
SELECT submission.submission_id, submission.kill_reason, known.body AS ended
FROM submission
LEFT JOIN restored_end AS known USING (submission_id)
WHERE submission.submission_id = ANY ($1::uuid[]) AND submission.state::text = 'submitting'

-- name: running
SELECT submission_id, attempt_token((SELECT secret FROM installation), submission_id) AS token, backend, handle, desired_state,
    extract(epoch FROM clock_timestamp() - heartbeat_at)::float8 AS heartbeat_age_s,
    {held dag_run_id} AS is_held
FROM submission
WHERE state = 'accepted' AND backend = ANY ($1::text[]) AND (host = $2 OR backend = ANY ($3::text[]))

-- name: open_on_host
SELECT submission_id
FROM submission
WHERE state IN ('submitting', 'accepted') AND host = $1

-- name: record_heartbeats
-- Heartbeats come as ages, not as times: the clock of a host may be wrong. A recorded one is in the future once the clock of the
-- server was set back. A row that another session holds keeps no other heartbeat from being recorded.
UPDATE submission
SET heartbeat_at = clock_timestamp() - make_interval(secs => change.silent_s)
FROM unnest($1::uuid[], $2::float8[]) AS change (submission_id, silent_s)
WHERE submission.submission_id = change.submission_id
  AND submission.submission_id = ANY (ARRAY(
      SELECT submission_id FROM submission WHERE submission_id = ANY ($1::uuid[])
      ORDER BY submission_id
      FOR NO KEY UPDATE SKIP LOCKED
  ))
  AND (
      submission.heartbeat_at < clock_timestamp() - make_interval(secs => change.silent_s)
      OR submission.heartbeat_at > clock_timestamp()
  )

-- name: silent
-- Attempts without a heartbeat for $1 s, on any backend. An attempt whose DAG was released within $1 s is not silent, nor is one
-- whose end waits for a row. One that a live daemon is submitting is silent only if it is to be killed: the daemon hangs, and
-- does not record a runner that starts later, so the task never begins.
SELECT submission.submission_id
FROM submission
LEFT JOIN job ON job.id = submission.owner AND job.heartbeat_at > clock_timestamp() - make_interval(secs => $1)
WHERE submission.state IN ('submitting', 'accepted')
  AND coalesce(submission.heartbeat_at, submission.submitted_at) < clock_timestamp() - make_interval(secs => $1)
  AND (submission.state = 'accepted' OR job.id IS NULL OR submission.desired_state = 'kill')
  AND ($2::uuid[] IS NULL OR submission.submission_id = ANY ($2))
  AND NOT {held dag_run_id}
  AND NOT EXISTS (SELECT FROM deferred_end WHERE deferred_end.submission_id = submission.submission_id)
  AND NOT EXISTS (
      SELECT FROM dag_run AS run JOIN dag USING (dag_id)
      WHERE run.id = dag_run_id AND dag.released_at > clock_timestamp() - make_interval(secs => $1)
  )
LIMIT $3

-- name: unreachable
-- Attempts that a daemon submitted, or was about to, when it stopped or froze, on a host without a live daemon. $2 are the
-- backends whose attempts every host sees. These attempts were not recorded as accepted, so their tasks have not begun, and will
-- not: the daemon no longer records them once they have ended.
SELECT submission_id
FROM submission
WHERE state = 'submitting' AND backend <> ALL ($2::text[])
  AND submitted_at < clock_timestamp() - make_interval(secs => $1)
  AND NOT EXISTS (SELECT FROM live_job WHERE live_job.id = submission.owner OR live_job.host = submission.host)
  AND ($3::uuid[] IS NULL OR submission_id = ANY ($3))
  AND NOT {held dag_run_id}
LIMIT $4

-- name: stuck
-- Attempts that were not submitted within $1 s, nor within $1 s after the release of their DAG. One whose cluster no live daemon
-- knows waits. A daemon of a former version does not tell its clusters, and may know all.
SELECT submission_id
FROM submission
WHERE state IN ('intent', 'submitting') AND desired_state = 'run'
  AND created_at < clock_timestamp() - make_interval(secs => $1)
  AND (cluster IS NULL OR EXISTS (
      SELECT FROM live_job
      WHERE coalesce(live_job.settings -> 'clusters' -> submission.backend ? submission.cluster, true)
  ))
  AND NOT {held dag_run_id}
  AND NOT EXISTS (
      SELECT FROM dag_run AS run JOIN dag USING (dag_id)
      WHERE run.id = dag_run_id AND dag.released_at > clock_timestamp() - make_interval(secs => $1)
  )
LIMIT $2
