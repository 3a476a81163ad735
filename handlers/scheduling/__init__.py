"""Which runs a DAG gets next: pure."""
