"""Starts the next runs of a DAG: pure.

`next_runs.py` is the entry. `round_robin.py` chooses among three sources: queued runs (`run_limit.py`), dataset runs
(`blockers.py`, `condition.py`, `inputs.py`, `run_size.py`, `dataset_runs.py`) and timed runs (`timetable.py`,
`timetable_with_datasets.py`).
`late_inputs.py` handles missed input deadlines, `wakeup.py` computes the next due time, `read_plan.py` limits what is read.
"""
