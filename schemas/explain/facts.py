"""Facts that an explanation starts from. They are read without locks, and nothing is decided by them."""

import msgspec

from tidegate.schemas.view import RunView


class RunFacts(msgspec.Struct, frozen=True):
    """A run and its DAG. `running_runs` of the DAG are running; `runs_ahead` queued ones start before this one.

    `run_before` is the previous run in the DAG's order, in any state.
    """

    run: RunView
    newest_version_id: int
    is_paused: bool
    is_stale: bool
    running_runs: int
    runs_ahead: int
    run_before: str | None
