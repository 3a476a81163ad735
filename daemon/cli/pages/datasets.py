"""The pages of `datasets events`, `datasets event` and `datasets audit`."""

from collections.abc import Iterable, Iterator, Sequence

from tidegate.daemon.audit import Report
from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.pages.event import extra_text, producer_text
from tidegate.daemon.cli.pages.tree import lines
from tidegate.daemon.read_model.condition import Branch
from tidegate.daemon.read_model.datasets import EventOutcomes
from tidegate.daemon.read_model.event import EventLife, Reached
from tidegate.daemon.terminal import printable
from tidegate.schemas.queries.datasets import EventRow
from tidegate.schemas.text import counted

EVENT_TITLES = ("EVENT", "OCCURRED", "SOURCE", "ID", "PRODUCER", "EXTRA", "DAG", "OUTCOME", "RUN OR REASON")
OUTCOME_TITLES = ("OUTCOME", "REASON", "COUNT")
FINDING_TITLES = ("EVENT", "DATASET", "SOURCE", "ID", "DAG", "PROBLEM")


def print_events(events: Iterable[EventOutcomes]) -> None:
    output.table(EVENT_TITLES, (row for event in events for row in _rows(event)), empty="there are no such events")


def _rows(event_outcomes: EventOutcomes) -> Iterator[Sequence[output.Cell]]:
    event = event_outcomes.event
    cells = (event.number, event.occurred_at, event.source, event.id, producer_text(event.producer), extra_text(event.extra))
    for outcome in event_outcomes.outcomes:
        yield (*cells, outcome.dag_id, outcome.outcome, outcome.run_id or outcome.reason)
    if not event_outcomes.outcomes:
        yield (*cells, None, "no DAG", None)


def print_life(life: EventLife) -> None:
    """One event, and below it as a tree the DAGs that got it, their runs, and the events that these made."""
    event = life.event
    output.heading(f"event {event.number}")
    output.facts(
        (
            *(("dataset", event.uri), ("source", event.source), ("id", event.id)),
            *(("occurred", event.occurred_at), ("received", event.received_at)),
            ("producer", producer_text(event.producer)),
            ("extra", extra_text(event.extra)),
        )
    )
    output.write()
    output.heading("what became of it")
    for line in (line for branch in _outcome_branches(life) for line in lines(branch)):
        output.write(line)


def _outcome_branches(life: EventLife) -> Sequence[Branch]:
    if life.is_cut:
        return [("… `tidegate datasets event` of its number shows more", ())]
    return [_outcome_branch(reached) for reached in life.reached] or [("no DAG was subscribed when it came", ())]


def _outcome_branch(reached: Reached) -> Branch:
    row = reached.outcome
    facts = (row.dag_id, row.outcome, row.run_id, row.run_state, row.reason)
    more = () if reached.is_followed else ("with the events listed for this run",)
    label = printable("  ".join(str(fact) for fact in (*facts, *more) if fact))
    return label, [(_event_text(life.event), _outcome_branches(life)) for life in reached.events]


def _event_text(event: EventRow) -> str:
    return printable(f"event {event.number}  {event.uri}  {event.id}")


def print_audit(report: Report) -> None:
    if report.outcomes:
        output.table(OUTCOME_TITLES, ((outcome.outcome, outcome.reason, outcome.count) for outcome in report.outcomes), empty="")
        output.write()
    events, outcomes = counted(report.events, "event", "events"), counted(report.due, "outcome", "outcomes")
    output.write(f"{events}, due: {outcomes}" if report.events else "no event has come yet")
    if report.unproven:
        unproven = counted(report.unproven, "event", "events")
        output.write(f"{unproven} came before subscriptions were recorded: not all of that can be checked")
    if report.wrong:
        _print_findings(report)
    elif report.due:
        output.write("each has exactly one outcome")


def _print_findings(report: Report) -> None:
    rows = ((row.event, row.uri, row.source, row.event_id, row.dag_id, row.problem) for row in report.findings)
    output.section(f"wrong: {counted(report.wrong, 'outcome', 'outcomes')}", FINDING_TITLES, rows, empty="")
    if more := report.wrong - len(report.findings):
        output.say(f"{counted(more, 'more is', 'more are')} wrong; --limit shows more")
