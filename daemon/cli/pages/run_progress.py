"""`runs show --progress`: the active tasks of a run, and the reasons why the others wait."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime

from tidegate.daemon.cli.pages import output
from tidegate.schemas.explain.gates import ActiveTask, BlockedTask, RunProgress
from tidegate.schemas.text import took

WORKING_TITLES = ("TASK", "STATE", "TRY", "SINCE", "FOR", "BACKEND", "HOST")
WAITING_TITLES = ("TASK", "STATE", "WAITS FOR")
ABOUT_TO_COME = "the next decision of a daemon"


def print_page(page: RunProgress, now: datetime) -> None:
    output.heading(f"{page.dag_id} {page.run_id}")
    counts = ", ".join(f"{count} {state}" for state, count in page.counts.items())
    output.facts(
        (
            ("state", page.state),
            ("waits for", "; ".join(reason.text for reason in page.blocked_by)),
            ("tasks", f"{page.ended} of {page.tasks} ended" + (f": {counts}" if counts else "")),
        )
    )
    output.section("at work", WORKING_TITLES, (_working(task, now) for task in page.working), empty="nothing")
    output.section("waiting", WAITING_TITLES, _waiting(page.waiting), empty="nothing")


def _working(task: ActiveTask, now: datetime) -> tuple[output.Cell, ...]:
    return task.task_id, task.state, task.try_number, task.since, took(task.since, None, now), task.backend, task.host


def _waiting(tasks: Sequence[BlockedTask]) -> Iterator[tuple[output.Cell, ...]]:
    """A line per task. Instances of a mapped task with the same reasons share a line."""
    alike: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for task in tasks:
        is_instance = task.task_id.endswith("]")
        name = task.task_id.partition("[")[0] if is_instance else ""
        texts = "; ".join(reason.text for reason in task.blocked_by) or ABOUT_TO_COME
        alike[name or task.task_id, task.state, texts].append(task.task_id)
    for (name, state, texts), labels in alike.items():
        yield labels[0] if len(labels) == 1 else f"{name}: {len(labels)} instances", state, texts
