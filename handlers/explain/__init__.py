"""Why a task, a DAG or a run does not run: reads without locks, decides nothing.

`task.py` and `dag.py` list the gates in the order in which a task or a DAG passes them. `task_facts.py` and `dag_facts.py` read.
`*_gates.py` ask the deciding functions for their reasons (`tasks.readiness`, `tasks.previous_run`, `scheduling`, `admission`).
`*_remedy.py` find the smallest change that opens a gate; for slots they run the admission with more of them. `gate.py` and
`remedy.py` have what tasks and DAGs share.
`run_progress.py` gives the reasons for all tasks of a run, `stages.py` how long each stage of a run took.
"""
