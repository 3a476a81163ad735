-- The note of a user on a run, or on a task of it.
--   task_label  as commands name the task: `load`, or `load[3]`; empty for the run
CREATE TABLE note (
    dag_run_id bigint NOT NULL REFERENCES dag_run (id) ON DELETE CASCADE,
    task_label text NOT NULL,
    content text NOT NULL CHECK (length(content) BETWEEN 1 AND 2000),
    written_at timestamptz NOT NULL DEFAULT now(),
    written_by text NOT NULL,
    PRIMARY KEY (dag_run_id, task_label)
);
