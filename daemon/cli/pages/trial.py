"""The page of `dags test`: the runs, their tasks, and the events that they would publish."""

from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.pages.output import compact
from tidegate.schemas.authoring.trial import RunTrial, Trial


def print_trial(trial: Trial) -> None:
    for run in trial.runs:
        _print_run(run)
    for event, reason in trial.discarded:
        output.write(f"discarded {event.uri} {compact(event.extra)}: {reason}")


def _print_run(run: RunTrial) -> None:
    output.heading(f"{run.run_id}  {run.state}")
    rows = [(name, task.state, task.try_number, task.reason, compact(task.result)) for name, task in run.tasks.items()]
    output.table(("TASK", "STATE", "TRY", "REASON", "RESULT"), rows, empty="the DAG has no tasks")
    for event in run.published:
        output.write(f"publishes {event.uri} {compact(event.extra)}".rstrip())
