-- Who is told of a DAG whose inputs are late is told of no run: `version_id` is the version of the DAG that says who. What was
-- decided about the DAG is written in the same transaction, so that `seq` need not tell one such notification from another.
ALTER TABLE notification
    ALTER COLUMN dag_run_id DROP NOT NULL,
    ADD COLUMN version_id bigint,
    DROP CONSTRAINT notification_about_check,
    ADD CONSTRAINT notification_about_check CHECK (about IN ('run', 'task', 'dag')),
    ADD CONSTRAINT notification_subject_check CHECK (num_nonnulls(dag_run_id, version_id) = 1);
CREATE INDEX notification_version ON notification (version_id) WHERE version_id IS NOT NULL;
