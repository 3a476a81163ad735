"""Credentials of the web pages and the API: tokens, sessions and login links. Secrets are stored as digests only."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Literal, NamedTuple

import msgspec

from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.sql import load
from tidegate.schemas.state import listing

_SQL = load("credentials")

CredentialKind = Literal["token", "session", "link"]


class Owner(msgspec.Struct, frozen=True):
    """The owner of a valid credential. `dags` are patterns of the ids of the DAGs that the owner may change.

    `groups` are those of its login, which give it its rights; None: it has the stored ones.
    """

    id: int
    username: str
    role: str
    dags: Sequence[str]
    groups: Sequence[str] | None = None


class NewCredential(msgspec.Struct, frozen=True, kw_only=True):
    """A credential to store. `parent_id` is the token that a session begins with."""

    kind: CredentialKind
    digest: bytes
    username: str
    role: str
    dags: Sequence[str]
    created_by: str
    lifetime_s: float
    description: str = ""
    parent_id: int | None = None
    groups: Sequence[str] | None = None


class StoredCredential(NamedTuple):
    """A stored credential."""

    id: int
    expires_at: datetime


class EndedSessions(msgspec.Struct, frozen=True):
    """How many sessions of a user were ended."""

    username: str
    sessions: int


class TokenRow(msgspec.Struct, frozen=True):
    """A line of the list of tokens."""

    id: int
    username: str
    role: Annotated[str, listing(("viewer", "editor", "operator", "admin"))]
    dags: Sequence[str]
    description: str
    created_at: datetime
    created_by: str
    expires_at: datetime
    revoked_at: datetime | None


async def insert(db: Db, new: NewCredential) -> StoredCredential:
    owner = (new.kind, new.digest, new.username, new.role, list(new.dags), new.description)
    (row,) = await db.fetch(_SQL["insert"], *owner, new.parent_id, new.created_by, new.groups, new.lifetime_s)
    return StoredCredential(*row)


async def find(db: Db, digest: bytes, kind: CredentialKind) -> Owner | None:
    """The owner of a credential; None for one that is unknown, expired or revoked."""
    rows = await db.fetch(_SQL["find"], digest, kind)
    return Owner(*rows[0]) if rows else None


async def valid(db: Db, ids: Sequence[int]) -> set[int]:
    """The ids of the credentials that are neither expired nor revoked."""
    return {id_ for (id_,) in await db.fetch(_SQL["valid"], list(ids))}


async def redeem(db: Db, digest: bytes) -> Owner | None:
    """Use up a login link. None for one that was used or has expired."""
    rows = await db.fetch(_SQL["redeem"], digest)
    return Owner(*rows[0]) if rows else None


async def list_tokens(db: Db, *, after: int | None = None, limit: int | None = None) -> list[TokenRow]:
    """Tokens by id, with revoked and expired ones: all, or the first ones after an id."""
    return [TokenRow(*row) for row in await db.fetch(_SQL["list_tokens"], after, limit)]


async def revoke(db: Db, id_: int) -> str | None:
    """Revoke a token, and end its sessions. Returns the user; None if there is no such valid token."""
    rows = await db.fetch(_SQL["revoke"], id_)
    return str(rows[0][0]) if rows else None


async def end_sessions(db: Db, username: str, way: str | None = None) -> int:
    """End the sessions of a user, all or with the same way of login; returns how many there were."""
    return len(await db.fetch(_SQL["end_sessions"], username, way))


async def set_groups(db: Db, username: str, way: str, groups: Sequence[str]) -> None:
    """The sessions of a user that began in one way have these groups from now on."""
    await db.execute(_SQL["set_groups"], username, way, groups)


async def remove(db: Db, id_: int) -> None:
    """Delete a credential, such as a session at its end."""
    await db.execute(_SQL["remove"], id_)


async def use_state(db: Db, digest: bytes, lifetime_s: float) -> bool:
    """Remember that a login at a provider was completed. False: it was before."""
    return bool(await db.fetch(_SQL["use_state"], digest, lifetime_s))


async def delete_expired(db: Db) -> None:
    """Delete expired sessions and links, and the states of logins that cannot be completed any more."""
    await db.execute(_SQL["delete_expired"])
    await db.execute(_SQL["delete_used_states"])
