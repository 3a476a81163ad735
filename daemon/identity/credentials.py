"""Issues credentials, and finds the caller that a secret belongs to."""

from datetime import timedelta
from typing import NamedTuple

import msgspec

from tidegate.daemon.identity.secret import digest_of, new_secret
from tidegate.daemon.permissions import Caller, Role
from tidegate.schemas.queries import credentials
from tidegate.schemas.queries.credentials import Kind, NewCredential, Owner, Stored
from tidegate.schemas.queries.db import Db

SESSION_S = timedelta(hours=12).total_seconds()
LINK_S = timedelta(minutes=15).total_seconds()


class Issued(NamedTuple):
    """A new credential. The secret is shown once, and not stored."""

    secret: str
    stored: Stored


class Session(NamedTuple):
    """A caller, and the secret and the id of the credential that names it."""

    caller: Caller
    secret: str
    id: int


async def issue(
    db: Db, kind: Kind, caller: Caller, lifetime_s: float, created_by: str, *, description: str = "", parent_id: int | None = None
) -> Issued:
    """Create a credential for a caller."""
    secret = new_secret()
    new = NewCredential(
        kind=kind,
        digest=digest_of(secret),
        username=caller.username,
        role=caller.role,
        dags=caller.dags,
        created_by=created_by,
        lifetime_s=lifetime_s,
        description=description,
        parent_id=parent_id,
    )
    return Issued(secret, await credentials.insert(db, new))


async def find(db: Db, kind: Kind, secret: str) -> Session | None:
    """None for an unknown, expired or revoked secret."""
    owner = await credentials.find(db, digest_of(secret), kind)
    return None if owner is None else Session(_caller(owner), secret, owner.id)


async def begin_session(db: Db, token: str) -> str | None:
    """Begin a session of the token's owner; returns its secret. None for an unknown, expired or revoked token."""
    owner = await credentials.find(db, digest_of(token), "token")
    return None if owner is None else await _begin(db, _caller(owner), owner.id)


async def redeem_link(db: Db, secret: str) -> str | None:
    """Use up a login link and begin a session; returns its secret. None for a link that was used or has expired."""
    owner = await credentials.redeem(db, digest_of(secret))
    return None if owner is None else await _begin(db, _caller(owner), None)


async def _begin(db: Db, caller: Caller, parent_id: int | None) -> str:
    await credentials.delete_expired(db)
    return (await issue(db, "session", caller, SESSION_S, caller.username, parent_id=parent_id)).secret


def _caller(owner: Owner) -> Caller:
    return msgspec.convert({"username": owner.username, "role": Role(owner.role), "dags": tuple(owner.dags)}, Caller)
