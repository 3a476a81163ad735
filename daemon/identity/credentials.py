"""Issues credentials, and finds the caller that a secret belongs to. Each login, refused login and logout is recorded."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Literal, NamedTuple

import msgspec

from tidegate.daemon.identity.grants import Grants, Member, NoRoleError, RefusedLoginError, caller_of
from tidegate.daemon.identity.secret import digest_of, new_secret
from tidegate.daemon.permissions import Caller, Role
from tidegate.schemas.effect.audit import INSTALLATION, OF_SESSION, OF_TOKEN, OF_USER, object_name
from tidegate.schemas.error import NotFoundError
from tidegate.schemas.queries import audit_log, credentials
from tidegate.schemas.queries.credentials import CredentialKind, EndedSessions, NewCredential, Owner, StoredCredential, TokenRow
from tidegate.schemas.queries.db import Db

SESSION_S = timedelta(hours=12).total_seconds()
LINK_S = timedelta(minutes=15).total_seconds()
ATTEMPT_S = timedelta(minutes=10).total_seconds()
"""The time of a login at a provider of OpenID Connect."""

Way = Literal["token", "link", "OpenID Connect", "proxy", "session"]

UNKNOWN = "unknown"
"""The user of a failed login without a name, in the audit log."""

COMPLETED = "this login was completed before; log in again"


class Login(NamedTuple):
    """A login or a logout: how, from which address, by which request."""

    way: Way
    address: str
    request_id: str

    @property
    def details(self) -> dict[str, Any]:
        return {"by": self.way, "from": self.address, "request_id": self.request_id}


class Issued(NamedTuple):
    """A new credential. The secret is shown once, and not stored."""

    secret: str
    stored: StoredCredential


class Session(NamedTuple):
    """A caller, and the secret and the id of the credential that names it. `groups` as in `Owner`."""

    caller: Caller
    secret: str
    id: int
    groups: Sequence[str] | None = None

    def at_present(self, grants: Grants) -> "Session | None":
        """The session with the rights that its groups have now; None: they give it no role any more."""
        try:
            return self if self.groups is None else self._replace(caller=caller_of(grants, self.caller.username, self.groups))
        except RefusedLoginError:
            return None


async def issue(
    db: Db,
    kind: CredentialKind,
    caller: Caller,
    lifetime_s: float,
    created_by: str,
    *,
    description: str = "",
    parent_id: int | None = None,
    groups: Sequence[str] | None = None,
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
        groups=groups,
    )
    return Issued(secret, await credentials.insert(db, new))


async def find(db: Db, kind: CredentialKind, secret: str) -> Session | None:
    """None for an unknown, expired or revoked secret."""
    owner = await credentials.find(db, digest_of(secret), kind)
    return None if owner is None else Session(_caller(owner), secret, owner.id, owner.groups)


async def redeem_token(db: Db, token: str, login: Login) -> str | None:
    """Begin a session of the token's owner; returns its secret. None for an unknown, expired or revoked token."""
    owner = await credentials.find(db, digest_of(token), "token")
    return None if owner is None else await begin_session(db, _caller(owner), login, owner.id)


async def redeem_link(db: Db, secret: str, login: Login) -> str | None:
    """Use up a login link and begin a session; returns its secret. None for a link that was used or has expired."""
    owner = await credentials.redeem(db, digest_of(secret))
    return None if owner is None else await begin_session(db, _caller(owner), login)


async def complete_attempt(db: Db, member: Member, login: Login, state: bytes) -> str:
    """Begin the session of a login at a provider; returns its secret. Raises RefusedLoginError for a state that was used."""
    if not await credentials.use_state(db, state, ATTEMPT_S):
        raise RefusedLoginError(COMPLETED, member.caller.username)
    return await begin_session(db, member.caller, login, groups=member.groups)


async def begin_session(
    db: Db, caller: Caller, login: Login, parent_id: int | None = None, groups: Sequence[str] | None = None
) -> str:
    """Begin a session; returns its secret. `parent_id` is the token that it ends with.

    `groups`, as in `Owner`, count from now on for all sessions of the user that began in the same way.
    """
    await credentials.delete_expired(db)
    owner = caller.username
    if groups is not None:
        await credentials.set_groups(db, owner, login.way, groups)
    issued = await issue(db, "session", caller, SESSION_S, owner, description=login.way, parent_id=parent_id, groups=groups)
    rights = {"role": caller.role, "dags": caller.dags}
    await audit_log.record(
        db, caller.username, "logged in", object_name(OF_SESSION, id=issued.stored.id), {**login.details, **rights}
    )
    return issued.secret


async def end_session(db: Db, session: Session, login: Login) -> None:
    """End the session of a browser."""
    await credentials.remove(db, session.id)
    await audit_log.record(db, session.caller.username, "logged out", object_name(OF_SESSION, id=session.id), login.details)


async def revoke(db: Db, id_: int, who: str) -> TokenRow:
    """Revoke a token, end its sessions, and record it. Raises NotFoundError if there is no such token in use."""
    user = await credentials.revoke(db, id_)
    if user is None:
        raise NotFoundError(f"there is no token {id_} that is in use; `tidegate tokens list` shows all")
    await audit_log.record(db, who, "revoked a token", object_name(OF_TOKEN, id=id_), {"user": user})
    return (await credentials.list_tokens(db, after=id_ - 1, limit=1))[0]


async def end_sessions(db: Db, username: str, who: str) -> EndedSessions:
    """End the sessions of a user that another one, `who`, logs out everywhere."""
    ended = EndedSessions(username, await credentials.end_sessions(db, username))
    await audit_log.record(db, who, "ended sessions", object_name(OF_USER, username=username), {"sessions": ended.sessions})
    return ended


async def record_refusal(db: Db, login: Login, error: RefusedLoginError, reason: str) -> None:
    """Write a login that failed to the audit log. A user without a role keeps no session that began in this way."""
    who, details = error.username or UNKNOWN, {**login.details, "reason": reason}
    if isinstance(error, NoRoleError):
        details["sessions"] = await credentials.end_sessions(db, who, login.way)
    await audit_log.record(db, who, "could not log in", INSTALLATION, details)


def _caller(owner: Owner) -> Caller:
    return msgspec.convert({"username": owner.username, "role": Role(owner.role), "dags": tuple(owner.dags)}, Caller)
