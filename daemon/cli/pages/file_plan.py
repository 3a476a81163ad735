"""The page of `dags plan`: what changed DAG files will do."""

from collections import Counter
from collections.abc import Iterator, Sequence

from tidegate.daemon.cli.pages import output, tree
from tidegate.daemon.file_plan import Difference, FilePlan, FileProblem, PlannedDag
from tidegate.daemon.terminal import printable
from tidegate.schemas.timetable.text import utc

NOT_SCHEDULED = "when asked to"
NO_RUN = "none by time"

Fact = tuple[str, output.Cell]


def print_plan(plan: FilePlan) -> None:
    for problem in plan.problems:
        output.write(_problem(problem))
    for unplanned in plan.unplanned:
        output.write(tree.problem(", ".join(unplanned.paths), None, f"this cannot be planned: {unplanned.reason}"))
    for number, dag in enumerate(plan.dags):
        if number or plan.problems or plan.unplanned:
            output.write()
        output.heading(f"{dag.dag_id}: {dag.action}")
        output.facts(facts(dag))


def summary(plan: FilePlan) -> str:
    """One sentence about all DAGs and files."""
    counts = Counter(dag.action for dag in plan.dags)
    parts = [f"{_counted(number, 'DAG')} {action}" for action, number in sorted(counts.items())]
    broken = [f"{_counted(len(plan.problems), 'file')} not taken up"] if plan.problems else []
    unknown = sum(len(files.paths) for files in plan.unplanned)
    held = [f"{_counted(unknown, 'file')} not planned"] if unknown else []
    return ", ".join([*parts, *broken, *held]) or "nothing changes"


def facts(dag: PlannedDag) -> Iterator[Fact]:
    """The lines about a DAG."""
    before, after = dag.before, dag.after
    yield "file", _arrow(before and before.path, after.path)
    yield "version", _arrow(before and before.version, after.version)
    yield "state", "paused" if dag.is_paused else "held until now: its new version releases it" if dag.is_released else ""
    yield from _schedule(dag)
    yield from ((name, line) for name, of in (("inputs", dag.inputs), ("outlets", dag.outlets)) for line in _difference(of))
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
    follow = ", and more follow" if dag.has_more else ""
    for type_, number in dag.new_runs.items():
        yield "starts", f"{_counted(number, f'{type_} run')} at once{follow}"
    if dag.started_runs:
        yield "starts", _counted(dag.started_runs, "queued run")
    for runs in dag.active_runs:
        yield "goes on", f"{_counted(runs.runs, f'{runs.state} run')} with version {runs.version}"


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


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _problem(problem: FileProblem) -> str:
    line = tree.problem(problem.path, problem.line, problem.reason)
    return f"{line}; its DAGs stay as they are: {printable(', '.join(problem.dags))}" if problem.dags else line
