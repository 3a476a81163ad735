"""Tries a DAG in this process, without servers: the functions that decide are those of the daemon, on a clock of their own.

    run_dag  starts runs by events, by time or on request  ->  run  one run, task by task  ->  attempt  executes a task

Nothing is stored. A run ends before the next one starts, and no attempt waits for slots.
"""
