-- Databases of builds in which 0011_days.sql dropped it do not have it.
DROP INDEX IF EXISTS dag_run_order_without_state;
