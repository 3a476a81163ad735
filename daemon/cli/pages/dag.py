"""`dags list`, and `dags show`: what starts a DAG, its limits, its next runs, its tasks, its last runs."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import starmap

import msgspec

from tidegate.daemon.cli.pages import output, tree
from tidegate.daemon.cli.pages.lists import RUN_TITLES, run_cells
from tidegate.daemon.cli.pages.plan import print_planned
from tidegate.daemon.cli.pages.why_not import print_notes
from tidegate.daemon.read_model import dag_options, inputs
from tidegate.daemon.read_model.condition import schedule_of
from tidegate.daemon.read_model.dag import DagPage, ListedDag, state_of
from tidegate.daemon.read_model.history import DagHistory
from tidegate.daemon.read_model.plan import UTC_CLOCK, timezone_of
from tidegate.schemas.dag import BaseTask, kind_of
from tidegate.schemas.params import ParamSpec, in_order

HISTORY_STATES = ("success", "failed", "running", "queued")
HISTORY_TITLES = ("DAY", "RUNS", *(state.upper() for state in HISTORY_STATES))
LIST_TITLES = ("DAG", "STATE", "VERSION", "RUNNING", "QUEUED", "PENDING", "SCHEDULE", "NEXT", "FILE")
NOTE_TITLES = ("KIND", "LAST", "TIMES", "WHAT")
TASK_TITLES = ("TASK", "KIND", "AFTER", "RETRIES", "OUTLETS")
PARAM_TITLES = ("PARAM", "DEFAULT", "SCHEMA")


def print_page(page: DagPage, now: datetime) -> None:
    dag, spec = page.dag, page.spec
    output.heading(dag.dag_id)
    output.facts(
        (
            ("state", state_of(dag)),
            ("held because", dag.hold_reason),
            ("description", spec.description),
            ("tags", ", ".join(spec.tags)),
            ("file", dag.path),
            ("broken", dag.import_error),
            ("version", dag.version),
            *dag_options.of_time(spec),
            ("runs", f"{dag.running} running, {dag.queued} queued, at most {spec.max_active_runs} at a time"),
            *dag_options.of_limits(spec),
            *dag_options.of_events(spec),
        )
    )
    if spec.schedule is not None:
        tree.print_condition("starts when", spec.schedule, page.inputs, now)
        if words := inputs.timing_text(spec.timing):
            output.write(f"counted {words}")
    if spec.timetable is not None:
        output.write()
        output.heading("next runs")
        print_planned(page.next_runs, timezone_of(spec.timetable))
    if spec.params:
        output.section("params", PARAM_TITLES, starmap(_param_cells, in_order(spec.params).items()), empty="none")
    output.section("tasks", TASK_TITLES, map(task_cells, spec.tasks), empty="no tasks")
    if page.notes:
        output.section("no runs", NOTE_TITLES, ((n.kind, n.last_at, n.times, n.reason) for n in page.notes), empty="none")
    output.section("last runs", RUN_TITLES, (run_cells(run, now) for run in page.runs), empty="no runs yet")


def task_cells(task: BaseTask) -> tuple[output.Cell, ...]:
    """A line of a DAG's tasks, for `TASK_TITLES`."""
    kind = ", ".join(filter(None, (kind_of(task), tree.role_text(task))))
    return task.task_id, kind, tree.after_text(task), task.retries, ", ".join(task.outlets)


def _param_cells(name: str, param: ParamSpec) -> tuple[output.Cell, ...]:
    default = "must be given" if param.default is msgspec.UNSET else msgspec.json.encode(param.default).decode()
    return name, default, output.compact(param.schema)


def print_list(dags: Iterable[ListedDag]) -> None:
    output.table(LIST_TITLES, map(_list_cells, dags), empty="there are no DAGs yet: put a DAG file into the DAG folder")


def _list_cells(listed: ListedDag) -> tuple[output.Cell, ...]:
    dag = listed.dag
    schedule = schedule_of(dag, listed.timetable)
    due = listed.next_run.run_after if listed.next_run else None
    return dag.dag_id, state_of(dag), dag.version, dag.running, dag.queued, dag.pending_text, schedule, due, dag.path


def print_history(page: DagHistory) -> None:
    """A line for each day that has runs."""
    rows: list[Sequence[output.Cell]] = [
        (f"{day}", sum(counts.values()), *(counts.get(state, 0) for state in HISTORY_STATES)) for day, counts in page.days.items()
    ]
    output.table(HISTORY_TITLES, rows, empty=f"it had no run in {page.year}")
    print_notes(page.notes)
    if page.timezone != UTC_CLOCK:
        output.say(f"the days are those of {page.timezone}")
    if page.usual:
        output.say(f"successful runs usually take {page.usual.text}")
    if page.is_cut:
        output.say("the oldest runs of the year are not counted")
