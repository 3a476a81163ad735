"""Why a task, a DAG or a run does not go on: reads, never locks."""
