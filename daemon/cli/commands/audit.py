"""`tidegate audit`: who did what, and whether the record of it was changed."""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from tidegate.daemon.cli.command import Json, Limit, command_group, examples, parse_time
from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.pages.lists import AUDIT, print_newest
from tidegate.daemon.cli.session import listed, remote, with_database
from tidegate.daemon.read_model.audit_log import KEPT, MOST_PROBLEMS, Verification, VerifiedPart
from tidegate.daemon.read_model.audit_log import verify as verify_log
from tidegate.schemas.error import RequestError
from tidegate.schemas.queries import audit_log
from tidegate.schemas.queries.audit_log import AuditFilter, AuditRow
from tidegate.schemas.queries.db import Db

if TYPE_CHECKING:
    from tidegate.daemon.cli.remote import Remote

SHOWN = 5
"""The problems of an error message."""

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


def parse_kept(text: str) -> str:
    """The value of an option that is a link of an earlier check. Raises BadParameter."""
    if not re.match(KEPT, text):
        raise typer.BadParameter(f"{text!r:.100} is no NUMBER:HASH, as an earlier check printed it")
    return text


@app.command(
    epilog=examples(
        "tidegate audit verify",
        "tidegate audit verify --kept 4711:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    )
)
def verify(
    context: typer.Context,
    *,
    kept: Annotated[
        str | None,
        typer.Option(
            parser=parse_kept, metavar="NUMBER:HASH", help="What an earlier check printed: check that the log still has it."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Check that no entry was changed or removed since it was written: each is chained to the one before by its hash.

    The chain alone does not show whether entries at its end were removed: keep what this command prints in another place, and
    give it to the next check by --kept. Exit code 1 if anything is wrong.
    """
    server = remote(context)
    found = _verified(server, kept) if server else with_database(context, lambda database: verify_log(database.autocommit, kept))
    if json or not found.problems:
        output.write_result(found, _unchanged(found), json=json)
    if found.problems:
        raise RequestError(f"the audit log was changed: {_first_problems(found.problems)}")


def _first_problems(problems: Sequence[str]) -> str:
    more = len(problems) - SHOWN
    return "; ".join([*problems[:SHOWN], *([f"and {more} more, which --json lists"] if more > 0 else [])])


def _unchanged(found: Verification) -> str:
    if not found.number:
        return "the audit log is empty"
    return f"{found.number} entries are unchanged; keep elsewhere, for --kept of the next check:\n{found.number}:{found.head}"


def _verified(server: "Remote", kept: str | None) -> Verification:
    """The check of all parts of the log."""
    parts = [*server.parts("/audit/verification", VerifiedPart, {} if kept is None else {"kept": kept})]
    problems = [problem for part in parts for problem in part.problems]
    return Verification(parts[-1].number, parts[-1].head, problems[:MOST_PROBLEMS])
