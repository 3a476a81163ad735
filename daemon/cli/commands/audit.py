"""`tidegate datasets audit`: whether every event has exactly one outcome for each DAG subscribed to it."""

import typer

from tidegate.daemon.audit import audit_ledger
from tidegate.daemon.cli.command import Json, Limit
from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.pages.audit import print_page
from tidegate.daemon.cli.session import with_database


def audit(context: typer.Context, *, limit: Limit = 1000, json: Json = False) -> None:
    """Check that each event is exactly once pending, consumed or discarded for each DAG that was subscribed when it came.

    Only reads, and runs beside working daemons. --limit is the number of findings shown. Exit code 1 if anything is wrong.
    """
    report = with_database(context, lambda database: audit_ledger(database.ask, limit))
    if json:
        output.write_json(report)
    else:
        print_page(report)
    if report.wrong:
        raise typer.Exit(1)
