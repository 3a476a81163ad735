"""The page of `dags plan`: what changed DAG files will do."""

from collections import Counter
from collections.abc import Iterator, Sequence

from tidegate.daemon.cli.pages import output, tree
from tidegate.daemon.file_plan import MOST_DUE, Difference, FilePlan, FileProblem, PlannedDag
from tidegate.daemon.terminal import printable
from tidegate.schemas.state import RunType
from tidegate.schemas.text import counted, utc

NOT_SCHEDULED = "when asked to"
NO_RUN = "none by time"
NOT_READ = "this folder cannot be read, so no file in it is planned; mend its permissions, or exclude it by .tidegateignore"

Fact = tuple[str, output.Cell]


def print_plan(plan: FilePlan) -> None:
    problems = list(_problems(plan))
    for line in problems:
        output.write(line)
    for number, dag in enumerate(plan.dags):
        if number or problems:
            output.write()
        output.heading(f"{dag.dag_id}: {dag.action}")
        output.facts(facts(dag))


def summary(plan: FilePlan) -> str:
    """One sentence about all DAGs and files."""
    counts = Counter(dag.action for dag in plan.dags)
    parts = [f"{counted(number, 'DAG', 'DAGs')} {action}" for action, number in sorted(counts.items())]
    broken = [f"{counted(len(plan.problems), 'file', 'files')} not taken up"] if plan.problems else []
    unknown = sum(len(files.paths) for files in plan.unplanned)
    held = [f"{counted(unknown, 'file', 'files')} not planned"] if unknown else []
    closed = [f"{counted(len(plan.unreadable), 'folder', 'folders')} not read"] if plan.unreadable else []
    return ", ".join([*parts, *broken, *held, *closed]) or "nothing changes"


def facts(dag: PlannedDag) -> Iterator[Fact]:
    """The lines about a DAG."""
    before, after = dag.before, dag.after
    yield "file", _arrow(before and before.path, after.path)
    yield "version", _arrow(before and before.version, after.version)
    yield "state", "paused" if dag.is_paused else "held until now: its new version releases it" if dag.is_released else ""
    yield from _schedule(dag)
    yield from (("inputs", line) for line in _difference(dag.inputs))
    yield from (("outlets", line) for line in _difference(dag.outlets))
    yield from (("changes", change) for change in dag.changes)
    yield from _runs(dag)
    yield from _events(dag)


def _schedule(dag: PlannedDag) -> Iterator[Fact]:
    before, after = dag.before, dag.after
    if dag.action == "removed":
        yield "schedule", "none: it starts no more runs"
    else:
        yield "schedule", _arrow(before and (before.schedule or NOT_SCHEDULED), after.schedule or NOT_SCHEDULED)
    next_runs = [utc(side.next_run) if side and side.next_run else NO_RUN for side in (before, after)]
    if next_runs != [NO_RUN, NO_RUN]:
        yield "next run", _arrow(next_runs[0] if before else None, next_runs[1])


def _runs(dag: PlannedDag) -> Iterator[Fact]:
    due = f"{dag.due_runs:,}" if dag.due_runs <= MOST_DUE else f"more than {MOST_DUE:,}"
    for type_, number in dag.new_runs.items():
        others = due if type_ == RunType.SCHEDULED and dag.due_runs else "more"
        follow = f", and {others} follow" if dag.has_more else ""
        yield "starts", f"{counted(number, f'{type_} run', f'{type_} runs')} at once{follow}"
    if dag.is_paused and dag.due_runs:
        yield "waits", f"{due} {'run' if dag.due_runs == 1 else 'runs'} by time, which start when the DAG is unpaused"
    if dag.started_runs:
        yield "starts", counted(dag.started_runs, "queued run", "queued runs")
    for runs in dag.active_runs:
        yield "goes on", f"{counted(runs.runs, f'{runs.state} run', f'{runs.state} runs')} with version {runs.version}"


def _events(dag: PlannedDag) -> Iterator[Fact]:
    events = dag.events
    if events.recorded > 0:
        yield "events", f"{events.recorded} recorded before become pending"
    if events.consumed:
        runs = "run that starts" if sum(dag.new_runs.values()) == 1 else "runs that start"
        yield "events", f"{events.consumed} consumed by the {runs}"
    yield from (("events", f"{number} discarded: {reason}") for reason, number in events.discarded.items())
    if events.pending:
        yield "events", f"{events.pending} pending"


def _difference(difference: Difference) -> Sequence[str]:
    return [*(f"+ {uri}" for uri in difference.added), *(f"- {uri}" for uri in difference.removed)]


def _arrow(before: object, after: object) -> str:
    """Both values if they differ."""
    return f"{after}" if before in (None, after) else f"{before} → {after}"


def _problems(plan: FilePlan) -> Iterator[str]:
    yield from (_problem(problem) for problem in plan.problems)
    for unplanned in plan.unplanned:
        yield tree.problem(", ".join(unplanned.paths), None, f"this cannot be planned: {unplanned.reason}")
    yield from (tree.problem(folder, None, NOT_READ) for folder in plan.unreadable)


def _problem(problem: FileProblem) -> str:
    line = tree.problem(problem.path, problem.line, problem.reason)
    return f"{line}; its DAGs stay as they are: {printable(', '.join(problem.dags))}" if problem.dags else line
