"""Follows a run to its end, or to that of its attempts, by the server of `--server`. Slow to import: the pages."""

import time

from tidegate.daemon.cli.pages.follow import (
    PATIENCE_S,
    print_failed,
    print_left,
    print_progress,
    print_waiting,
    why_waiting,
)
from tidegate.daemon.cli.remote import Remote
from tidegate.daemon.cli.session import at
from tidegate.schemas.error import RequestError
from tidegate.schemas.explain.gates import RunProgress
from tidegate.schemas.queries.run_pages import RunAttemptRow, RunRow, RunTaskRow
from tidegate.schemas.state import RUN_ENDED


def follow(server: Remote, run: RunRow) -> RunRow:
    """The run after its end. Progress, what it waits for and failed tasks go to stderr."""
    path = at("dags", run.dag_id, "runs", run.run_id)
    printed, why, since = print_progress(run, ""), "", time.monotonic()
    while run.state not in RUN_ENDED:
        run = server.polled(f"{path}/state", RunRow)
        before, printed = printed, print_progress(run, printed)
        if printed != before:
            since = time.monotonic()
        if time.monotonic() - since >= PATIENCE_S and run.state not in RUN_ENDED:
            why, since = _print_why(server, path, why), time.monotonic()
    print_failed(server.rows(f"{path}/tasks", RunTaskRow, None, {}, is_patient=True))
    return run


def wait_killed(server: Remote, run: RunRow) -> RunRow:
    """The run after the end of each of its attempts. The open ones go to stderr."""
    path = at("dags", run.dag_id, "runs", run.run_id)
    printed = print_left(server.patient(f"{path}/open-attempts", list[RunAttemptRow]), "")
    while printed:
        printed = print_left(server.polled(f"{path}/open-attempts", list[RunAttemptRow]), printed)
    return server.patient(f"{path}/state", RunRow)


def _print_why(server: Remote, path: str, printed: str) -> str:
    try:
        found = why_waiting(server.polled(f"{path}/progress", RunProgress))
    except RequestError as error:  # such as the reason for which its DAG is held
        found = str(error)
    return print_waiting(found, printed)
