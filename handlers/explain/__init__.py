"""Why a task, a DAG or a run does not run: reads without locks, decides nothing.

`task.py` and `dag.py` list the gates in the order in which a task or a DAG passes them, and find the smallest change that opens
the closed ones; for slots they run the admission with more of them. The reasons are those of the deciding functions
(`tasks.readiness`, `tasks.previous_run`, `scheduling`, `admission`). `gate.py` has what tasks and DAGs share.
`run_progress.py` gives the reasons for all tasks of a run, `stages.py` how long each stage of a run took.
"""
