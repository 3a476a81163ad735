-- Conditions that look closer at events, their timing, patterns of datasets, and what is known of datasets themselves.

-- `sifts`: which events wait for the DAG, and when, depends on more than which datasets they are of. `keeps_paused`: what comes
-- while it is paused waits for it. `dataset_run_at` is when its condition last made a run, `deadline_at` up to when deadlines of the
-- condition have been dealt with; both only where they matter.
ALTER TABLE dag
    ADD COLUMN sifts boolean NOT NULL DEFAULT false,
    ADD COLUMN keeps_paused boolean NOT NULL DEFAULT false,
    ADD COLUMN dataset_run_at timestamptz,
    ADD COLUMN deadline_at timestamptz;

-- A dataset that no DAG waits for or makes is not active; its history stays.
ALTER TABLE dataset
    ADD COLUMN name text NOT NULL DEFAULT '',
    ADD COLUMN extra jsonb NOT NULL DEFAULT '{}',
    ADD COLUMN is_active boolean NOT NULL DEFAULT false;
UPDATE dataset SET is_active = true
WHERE EXISTS (SELECT FROM dag_schedule_dataset_reference AS reference WHERE reference.dataset_id = dataset.id)
   OR EXISTS (SELECT FROM task_outlet_dataset_reference AS reference WHERE reference.dataset_id = dataset.id);

-- The patterns that DAGs wait for. Every URI that a pattern matches begins with its prefix, which ends where the first * stands:
-- who matches a new dataset is found by the prefixes of its URI. Datasets that match are in `dag_schedule_dataset_reference`.
CREATE TABLE dag_schedule_pattern_reference (
    prefix text COLLATE "C" NOT NULL,
    pattern text COLLATE "C" NOT NULL,
    dag_id text COLLATE "C" NOT NULL REFERENCES dag (dag_id),
    PRIMARY KEY (prefix, pattern, dag_id)
);
CREATE INDEX dag_schedule_pattern_reference_dag ON dag_schedule_pattern_reference (dag_id);

-- What came of a DAG's schedule where no run did: ticks that found the condition unmet, deadlines that inputs missed, conditions
-- that could not be read.
CREATE TABLE schedule_note (
    dag_id text COLLATE "C" NOT NULL,
    kind text NOT NULL,
    reason text NOT NULL,
    first_at timestamptz NOT NULL,
    last_at timestamptz NOT NULL,
    times integer NOT NULL DEFAULT 1,
    PRIMARY KEY (dag_id, kind, reason)
) WITH (fillfactor = 80);
CREATE INDEX schedule_note_last ON schedule_note USING brin (last_at);
