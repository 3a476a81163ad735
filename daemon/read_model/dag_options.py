"""The options of a DAG in words, as a command and the page of the DAG show them."""

from collections.abc import Iterator

from tidegate.schemas.dag import DagSpec, DeadlineSpec
from tidegate.schemas.text import span, utc
from tidegate.schemas.timetable.spec import describe

Option = tuple[str, str]
"""The name of an option, and its value in words."""

_CATCHUP = {
    "all": "on: every missed run is started",
    "latest": "off: only the latest missed run is started",
    "skip": "off: missed runs are skipped",
}


def of_time(spec: DagSpec) -> Iterator[Option]:
    if spec.timetable is None:
        return
    yield "timetable", describe(spec.timetable)
    if spec.start_date is not None:
        yield "start date", utc(spec.start_date)
    if spec.end_date is not None:
        yield "end date", utc(spec.end_date)
    rate = "" if spec.missed_per_minute is None else f", at most {spec.missed_per_minute} a minute"
    yield "catchup", f"{_CATCHUP[spec.missed]}{rate}"
    if spec.run_immediately is not None:
        yield "first run", "of the last tick" if spec.run_immediately else "of the next tick"


def of_limits(spec: DagSpec) -> Iterator[Option]:
    """The limits of a DAG. A page shows its `max_active_runs` elsewhere, beside the number of active runs."""
    yield "tasks", f"of each run at most {spec.max_active_tasks} at a time"
    if spec.run_timeout_s is not None:
        yield "run timeout", span(spec.run_timeout_s)
    if spec.max_failed_runs:
        yield "paused after", f"{spec.max_failed_runs} failed runs in a row"
    if spec.fail_fast:
        yield "fail fast", "the first task that fails ends its run"
    if not spec.allow_backfills:
        yield "backfills", "not allowed"
    if spec.paused:
        yield "when new", "paused"
    if spec.extra_params:
        yield "extra params", "the conf of a run may have keys that are no params"
    if spec.deadlines:
        yield "deadlines", ", ".join(map(_deadline_text, spec.deadlines))


def _deadline_text(deadline: DeadlineSpec) -> str:
    if deadline.at is not None:
        return f"{deadline.name} at {deadline.at:%H:%M} {deadline.timezone}"
    return f"{deadline.name} {span(deadline.after_s or 0)} after {deadline.since}"


def of_events(spec: DagSpec) -> Iterator[Option]:
    if spec.mode == "each":
        yield "mode", "each event makes a run of its own"
    if spec.together:
        yield "datasets and time", "a tick makes a run only if the condition holds"
    if spec.schedule is not None and spec.on_paused == "keep":
        yield "while paused", "events stay pending"
