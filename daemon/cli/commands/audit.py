"""`tidegate audit`: who did what, and whether the record of it was changed."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from tidegate.daemon.cli.command import Json, Limit, command_group, examples, parse_time
from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.pages.lists import AUDIT, print_newest
from tidegate.daemon.cli.session import listed, remote, with_database
from tidegate.daemon.read_model.audit_log import MOST_PROBLEMS, Verification, VerifiedPart
from tidegate.daemon.read_model.audit_log import verify as verify_log
from tidegate.schemas.error import RequestError
from tidegate.schemas.queries import audit_log
from tidegate.schemas.queries.audit_log import AuditFilter, AuditRow
from tidegate.schemas.queries.db import Db

if TYPE_CHECKING:
    from tidegate.daemon.cli.remote import Remote

app = command_group()


@app.command("list", epilog=examples("tidegate audit list --who anna", "tidegate audit list --object 'DAG daily_delays' --json"))
def list_(
    context: typer.Context,
    *,
    who: Annotated[str | None, typer.Option(metavar="USER", help="Only entries of this user.")] = None,
    object_: Annotated[
        str | None,
        typer.Option("--object", metavar="TEXT", help="Only entries about this object, such as a DAG, or its runs and tasks."),
    ] = None,
    since: Annotated[datetime | None, typer.Option(parser=parse_time, metavar="TIME", help="Only entries from then on.")] = None,
    until: Annotated[datetime | None, typer.Option(parser=parse_time, metavar="TIME", help="Only entries until then.")] = None,
    limit: Limit = 50,
    json: Json = False,
) -> None:
    """List changes and refusals, newest first."""
    chosen = AuditFilter(who, object_, since, until)

    async def read(db: Db) -> list[AuditRow]:
        return await audit_log.list_entries(db, chosen, limit + 1)

    found, now = listed(context, "/audit", AuditRow, read, limit + 1, **msgspec.structs.asdict(chosen))
    print_newest(AUDIT, found, now, limit, json=json)


@app.command(epilog=examples("tidegate audit verify", "tidegate audit verify --json | jq -r .head"))
def verify(context: typer.Context, *, json: Json = False) -> None:
    """Check that no entry was changed or removed since it was written: each is chained to the one before by its hash.

    Keep the hash of the last entry elsewhere: it shows whether entries at the end were removed. Exit code 1 if anything is wrong.
    """
    server = remote(context)
    found = _verified(server) if server else with_database(context, lambda database: verify_log(database.autocommit))
    if json or not found.problems:
        output.write_result(found, f"{found.number} entries are unchanged; the last has the hash {found.head}", json=json)
    if found.problems:
        raise RequestError(f"the audit log was changed: {'; '.join(found.problems)}")


def _verified(server: "Remote") -> Verification:
    """The check of all parts of the log."""
    parts = [*server.parts("/audit/verification", VerifiedPart)]
    problems = [problem for part in parts for problem in part.problems]
    return Verification(parts[-1].number, parts[-1].head, problems[:MOST_PROBLEMS])
