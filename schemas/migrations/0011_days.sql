-- The days of a DAG are counted from this index alone: the runs of a DAG lie on almost as many pages of the table as there are runs.
-- The state is in the predicates of other indexes already, so that a change of it is an entry in each index anyway.
CREATE INDEX dag_run_order_state ON dag_run (dag_id, order_at, id) INCLUDE (state) WHERE order_at IS NOT NULL;
DROP INDEX dag_run_order;
ALTER INDEX dag_run_order_state RENAME TO dag_run_order;
