-- DAGs that got events while another session had their row: the clock decides about each once the row is free.
CREATE TABLE deferred_dag (
    dag_id text COLLATE "C" PRIMARY KEY,
    at timestamptz NOT NULL,
    clock_shard smallint NOT NULL GENERATED ALWAYS AS (abs(hashtext(dag_id) % 16)) STORED
) WITH (fillfactor = 50);
CREATE INDEX deferred_dag_due ON deferred_dag (clock_shard, at);

-- Ends of attempts that came while another session had the row of their DAG or run: the clock applies each once the row is free.
CREATE TABLE deferred_end (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    submission_id uuid NOT NULL,
    dag_run_id bigint NOT NULL,
    source text NOT NULL,
    event_id text NOT NULL,
    occurred_at timestamptz NOT NULL,
    body bytea NOT NULL,
    at timestamptz NOT NULL
);
CREATE INDEX deferred_end_due ON deferred_end ((dag_run_id % 16), at);
CREATE INDEX deferred_end_attempt ON deferred_end (submission_id);
