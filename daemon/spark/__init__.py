"""Execution of tasks: the contract of backends, the backends, and the runner process."""
