"""Tokens of the API and the pages."""

from typing import Annotated

from msgspec import Meta

from tidegate.daemon.gateway.cursor import Page
from tidegate.daemon.gateway.endpoint import Act, Call, Nothing, Params, Read
from tidegate.daemon.gateway.lists import Id, Keyset, Listed
from tidegate.daemon.identity import credentials as credentials_of
from tidegate.daemon.permissions import Right
from tidegate.schemas.effect.audit import OF_TOKEN, OF_USER
from tidegate.schemas.queries import credentials
from tidegate.schemas.queries.credentials import EndedSessions, TokenRow
from tidegate.schemas.queries.db import Db


class TokenPath(Params, frozen=True):
    """A token by its number."""

    id: Annotated[Id, Meta(description="The number of the token.")]


class UserPath(Params, frozen=True):
    """A user by its name."""

    username: Annotated[str, Meta(description="The name of the user.")]


BY_ID = Keyset("tokens", ("id",), (Id,))


async def list_tokens(db: Db, call: Call[Listed]) -> Page[TokenRow]:
    """List tokens by id, also expired and revoked ones. Secrets are not stored."""
    params = call.params
    return BY_ID.page(await credentials.list_tokens(db, after=BY_ID.first(params), limit=params.limit + 1), params)


async def revoke_token(call: Call[TokenPath], _body: Nothing) -> TokenRow:
    """Revoke a token, and end the browser sessions that began with it."""
    return await call.database.run(credentials_of.revoke, call.params.id, call.caller.username)


async def end_sessions(call: Call[UserPath], _body: Nothing) -> EndedSessions:
    """End the browser sessions of a user, however they began. Its tokens are still valid."""
    return await call.database.run(credentials_of.end_sessions, call.params.username, call.caller.username)


ENDPOINTS = (
    Read("/tokens", Right.ADMINISTER, list_tokens, Listed, Page[TokenRow]),
    Act(
        "DELETE",
        "/tokens/{id}",
        Right.ADMINISTER,
        revoke_token,
        TokenPath,
        Nothing,
        TokenRow,
        does="revoked a token",
        about=OF_TOKEN,
    ),
    Act(
        "DELETE",
        "/users/{username}/sessions",
        Right.ADMINISTER,
        end_sessions,
        UserPath,
        Nothing,
        EndedSessions,
        does="ended sessions",
        about=OF_USER,
    ),
)
