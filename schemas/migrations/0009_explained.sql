-- What a run and a daemon are asked about later.

-- Who made a run: `creator` names the daemon or the user, `created_upon` the kind of message that was handled. `created_by` is the
-- id of the daemon, whose row in `job` goes when it does.
ALTER TABLE dag_run ADD COLUMN creator text, ADD COLUMN created_upon text;

-- Since when nothing of a DAG starts, while it is so.
ALTER TABLE dag ADD COLUMN paused_at timestamptz, ADD COLUMN stale_at timestamptz;

-- By which settings a daemon decides, and which servers it cannot reach: since when, and why, by the name of the server.
ALTER TABLE job
    ADD COLUMN settings jsonb NOT NULL DEFAULT '{}',
    ADD COLUMN away jsonb NOT NULL DEFAULT '{}';
