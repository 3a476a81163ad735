"""Tokens of the API and the pages."""

from tidegate.daemon.gateway.endpoint import Act, Call, Nothing, Params, Read
from tidegate.daemon.gateway.lists import Id
from tidegate.daemon.permissions import Right
from tidegate.schemas.error import NotFoundError
from tidegate.schemas.queries import credentials
from tidegate.schemas.queries.credentials import TokenRow
from tidegate.schemas.queries.db import Db


class TokenPath(Params, frozen=True):
    """A token by its number."""

    id: Id


async def list_tokens(db: Db, _call: Call[Params]) -> list[TokenRow]:
    """List tokens, also expired and revoked ones. Secrets are not stored."""
    return await credentials.list_tokens(db)


async def revoke_token(call: Call[TokenPath], _body: Nothing) -> list[TokenRow]:
    """Revoke a token, and end the browser sessions that began with it. Returns all tokens."""
    if await call.database.run(credentials.revoke, call.params.id) is None:
        raise NotFoundError(f"there is no token {call.params.id} that is in use; `tidegate tokens list` shows all")
    return await call.database.run(credentials.list_tokens)


ENDPOINTS = (
    Read("/tokens", Right.ADMINISTER, list_tokens, Params, list[TokenRow]),
    Act("DELETE", "/tokens/{id}", Right.ADMINISTER, revoke_token, TokenPath, Nothing, list[TokenRow]),
)
