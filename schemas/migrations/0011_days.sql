-- The days of a DAG are counted from this index alone: the runs of a DAG lie on almost as many pages of the table as there are runs.
-- The state is in the predicates of other indexes already, so that a change of it is an entry in each index anyway.
-- While it is built, runs can be read, but not changed. Its predecessor is dropped by a migration of its own: that needs a lock
-- which others may hold for long, and another try would build again.
ALTER INDEX dag_run_order RENAME TO dag_run_order_without_state;
CREATE INDEX dag_run_order ON dag_run (dag_id, order_at, id) INCLUDE (state) WHERE order_at IS NOT NULL;
