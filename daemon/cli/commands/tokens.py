"""`tidegate tokens`: create, list and revoke the tokens of the API and the pages."""

import re
from typing import Annotated, Any

import typer

from tidegate.daemon.cli.command import MAX_ID, Json, command_group, examples
from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.pages.lists import TOKENS, print_list
from tidegate.daemon.cli.session import at, changed, listed, query, read_settings
from tidegate.daemon.identity.local_user import current_user
from tidegate.daemon.permissions import ANY_DAG, Caller, Role
from tidegate.schemas.effect.audit import OF_TOKEN, object_name
from tidegate.schemas.queries import audit_log, credentials
from tidegate.schemas.queries.credentials import EndedSessions, TokenRow
from tidegate.schemas.queries.db import Db
from tidegate.schemas.text import seconds, utc

app = command_group()

LIFETIME_S = seconds("90d")
MAX_LIFETIME_S = seconds("3650d")

_USER = re.compile(r"[\w.@+-]{1,100}", re.ASCII)


def parse_lifetime(text: str) -> float:
    """The seconds of a span such as `30d`. Raises BadParameter."""
    try:
        lifetime_s = seconds(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    if not 1 <= lifetime_s <= MAX_LIFETIME_S:
        raise typer.BadParameter(f"a token is valid for 1s to {MAX_LIFETIME_S / 86_400:.0f}d")
    return lifetime_s


@app.command(
    epilog=examples(
        "tidegate tokens create anna --role editor --dag 'finance_*' --expires 30d",
        "TOKEN=$(tidegate tokens create ci --role viewer --json | jq -r .token)",
    )
)
def create(
    context: typer.Context,
    user: Annotated[str, typer.Argument(metavar="USER", help="The user that the audit log names.")],
    *,
    role: Annotated[Role, typer.Option(help="What its owner may do.")] = Role.VIEWER,
    dag: Annotated[
        list[str] | None, typer.Option(metavar="PATTERN", help="Only DAGs with such an id may be changed; may be repeated.")
    ] = None,
    expires: Annotated[
        float | None,
        typer.Option(
            parser=parse_lifetime, metavar="TIME", help="How long it is valid, such as 12h or 30d; at most 3650d. Default: 90d."
        ),
    ] = None,
    description: Annotated[str, typer.Option(metavar="TEXT", help="What it is for.")] = "",
    json: Json = False,
) -> None:
    """Create a token, and print it. It is stored as a digest only, and cannot be shown again."""
    from tidegate.daemon.identity.credentials import issue

    if not _USER.fullmatch(user):
        raise typer.BadParameter("a user is 1 to 100 of A-Z a-z 0-9 _ . @ + -", param_hint="USER")
    caller = Caller(user, role, tuple(dag or ANY_DAG))
    who = current_user(read_settings(context))

    async def work(db: Db) -> dict[str, Any]:
        secret, stored = await issue(db, "token", caller, expires or LIFETIME_S, who, description=description)
        await audit_log.record(
            db, who, "created a token", object_name(OF_TOKEN, id=stored.id), {"user": user, "role": role, "dags": caller.dags}
        )
        return {"id": stored.id, "user": user, "role": role, "expires_at": stored.expires_at, "token": secret}

    made = query(context, work)
    if not json:
        output.say(f"token {made['id']} of {user}, {role}, until {utc(made['expires_at'])}; it is not shown again")
    output.write_result(made, made["token"], json=json)


@app.command("list", epilog=examples("tidegate tokens list"))
def list_(context: typer.Context, *, json: Json = False) -> None:
    """List tokens, also expired and revoked ones."""
    print_list(TOKENS, *listed(context, "/tokens", TokenRow, credentials.list_tokens), json=json)


@app.command(epilog=examples("tidegate tokens revoke 3"))
def revoke(
    context: typer.Context,
    id_: Annotated[int, typer.Argument(metavar="ID", min=1, max=MAX_ID, help="The number of the token.")],
    *,
    json: Json = False,
) -> None:
    """Revoke a token, and end the browser sessions that began with it."""
    from tidegate.daemon.identity.credentials import revoke as revoke_token

    who = current_user(read_settings(context))
    change = "DELETE", at("tokens", id_)
    token = changed(context, change, TokenRow, lambda database: database.run(revoke_token, id_, who))
    output.write_result({"id": id_, "user": token.username}, f"revoked token {id_} of {token.username}", json=json)


@app.command("log-out", epilog=examples("tidegate tokens log-out anna"))
def log_out(
    context: typer.Context,
    user: Annotated[str, typer.Argument(metavar="USER", help="The name of the user.")],
    *,
    json: Json = False,
) -> None:
    """End the browser sessions of a user, however they began. Its tokens are still valid."""
    from tidegate.daemon.identity.credentials import end_sessions

    who = current_user(read_settings(context))
    change = "DELETE", at("users", user, "sessions")
    ended = changed(context, change, EndedSessions, lambda database: database.run(end_sessions, user, who))
    output.write_result(ended, f"ended {ended.sessions} sessions of {user}", json=json)
