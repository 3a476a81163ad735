"""`tidegate datasets audit`: whether every event has exactly one outcome for each DAG that waited for it."""

import typer

from tidegate.daemon.audit import Report, audit_ledger
from tidegate.daemon.cli.command import Json, Limit
from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.session import with_database

OUTCOMES = ("OUTCOME", "REASON", "COUNT")
FINDINGS = ("EVENT", "DATASET", "SOURCE", "ID", "DAG", "PROBLEM")


def audit(context: typer.Context, *, limit: Limit = 1000, json: Json = False) -> None:
    """Check that every event is pending, consumed or discarded for each DAG that waited for its dataset when it came: one, once.

    Only reads, also while daemons work. Exit code 1 if anything is wrong; --limit is how many findings are shown.
    """
    report = with_database(context, lambda database: audit_ledger(database.ask, limit))
    if json:
        output.write_json(report)
    else:
        _print(report)
    if report.wrong:
        raise typer.Exit(1)


def _print(report: Report) -> None:
    if report.outcomes:
        output.table(OUTCOMES, ((each.outcome, each.reason, each.count) for each in report.outcomes), empty="")
        output.write()
    output.write(_sum(report))
    if report.unproven:
        output.write(f"{_many(report.unproven, 'event')} came before it was recorded who waits: not all of that can be checked")
    if report.wrong:
        _print_findings(report)
    elif report.due:
        output.write("each has exactly one outcome")


def _sum(report: Report) -> str:
    return f"{_many(report.events, 'event')}, due: {_many(report.due, 'outcome')}" if report.events else "no event has come yet"


def _print_findings(report: Report) -> None:
    rows = ((each.event, each.uri, each.source, each.event_id, each.dag_id, each.problem) for each in report.findings)
    output.section(f"wrong: {_many(report.wrong, 'outcome')}", FINDINGS, rows, empty="")
    if more := report.wrong - len(report.findings):
        output.say(f"{more} more {'is' if more == 1 else 'are'} wrong; --limit shows more")


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
