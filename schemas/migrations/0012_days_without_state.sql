-- Apart from 0011_days.sql: see there.
DROP INDEX dag_run_order_without_state;
