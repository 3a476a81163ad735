-- Deadlines of runs and tasks, and who is to be told of what becomes of them.

-- A row is written with its run. One that is still open when it is due was missed: whatever ends in time closes it at once.
-- `missed_seq` is the number of the run's event that says so. Each clock shard is one daemon's.
CREATE TABLE deadline (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    dag_run_id bigint NOT NULL,
    task_id text,
    name text NOT NULL,
    due_at timestamptz NOT NULL,
    met_at timestamptz,
    missed_at timestamptz,
    missed_seq integer,
    CHECK (met_at IS NULL OR missed_at IS NULL)
);
CREATE INDEX deadline_run ON deadline (dag_run_id);
CREATE INDEX deadline_due ON deadline ((dag_run_id % 16), due_at) WHERE met_at IS NULL AND missed_at IS NULL;
CREATE INDEX deadline_missed ON deadline (id) WHERE missed_at IS NOT NULL;

CREATE TYPE notification_state AS ENUM ('pending', 'sending', 'sent', 'failed');

-- One row for each receiver of each event, which `about` and `seq` name; `delivery_id` is the same at every try. `due_at` is when
-- somebody is to take it up: at once, for another try, or because whoever is sending it must have died.
CREATE TABLE notification (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    delivery_id uuid NOT NULL DEFAULT gen_random_uuid(),
    dag_run_id bigint NOT NULL,
    about text NOT NULL CHECK (about IN ('run', 'task')),
    seq integer NOT NULL,
    kind text NOT NULL,
    receiver_id uuid NOT NULL,
    receiver jsonb NOT NULL,
    context jsonb NOT NULL,
    state notification_state NOT NULL DEFAULT 'pending',
    tries integer NOT NULL DEFAULT 0,
    reason text NOT NULL DEFAULT '',
    owner uuid,
    host text,
    created_at timestamptz NOT NULL DEFAULT now(),
    due_at timestamptz NOT NULL DEFAULT now() - interval '1 s',
    ended_at timestamptz,
    UNIQUE (dag_run_id, about, seq, receiver_id)
) WITH (fillfactor = 80);
CREATE INDEX notification_due ON notification (kind, due_at) WHERE state IN ('pending', 'sending');
CREATE INDEX notification_failed ON notification (id) WHERE state = 'failed';
