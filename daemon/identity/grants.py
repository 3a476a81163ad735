"""The rights of users whom another service knows: `TIDEGATE_LOGIN_ROLES` gives roles to their groups."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import msgspec

from tidegate.daemon.permissions import ANY_DAG, Caller, Role
from tidegate.daemon.settings import PREFIX, Settings, SettingsError
from tidegate.schemas.error import ForbiddenError

EVERY_USER = "*"
"""The group of every user that the service knows."""

USERNAME = re.compile(r"[\w.@+-]{1,100}", re.ASCII)
USERNAMES = "1 to 100 of A-Z a-z 0-9 _ . @ + -"

SHOWN = 10


class RefusedLoginError(ForbiddenError):
    """A login is refused; the message says why. `username` is set once it is known."""

    def __init__(self, message: str, username: str | None = None) -> None:
        super().__init__(message)
        self.username = username


class NoRoleError(RefusedLoginError):
    """The groups of a user give it no role."""


class Grant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The rights of a group. `dags` are patterns of the ids of the DAGs that it may change."""

    role: Role
    dags: tuple[str, ...] = ANY_DAG


Grants = Mapping[str, Grant]


class Member(NamedTuple):
    """A user whom another service knows, and the groups that give it its rights."""

    caller: Caller
    groups: Sequence[str]


def grants_of(settings: Settings) -> Grants:
    """By group. Raises SettingsError for a setting that cannot be read."""
    try:
        given = msgspec.json.decode(settings.login_roles, type=dict[str, Role | Grant])
    except ValueError as error:
        example = '{"platform": "admin", "finance": {"role": "editor", "dags": ["finance_*"]}, "*": "viewer"}'
        roles = f"a role is one of {', '.join(Role)}"
        raise SettingsError(f"{PREFIX}LOGIN_ROLES cannot be read ({error}); {roles}; write JSON like {example}") from error
    return {group: grant if isinstance(grant, Grant) else Grant(grant) for group, grant in given.items()}


def member_of(grants: Grants, username: object, groups: Collection[str]) -> Member:
    """Raises as `caller_of`."""
    return Member(caller_of(grants, username, groups), sorted(groups))


def caller_of(grants: Grants, username: object, groups: Collection[str]) -> Caller:
    """The highest role of the groups counts, with the DAGs of all groups that have it.

    Raises RefusedLoginError for a name that no user can have, and for groups without a role.
    """
    if not isinstance(username, str) or not USERNAME.fullmatch(username):
        raise RefusedLoginError(f"the user name {username!r:.120} cannot be used: a name is {USERNAMES}")
    found = [grant for group, grant in grants.items() if group in groups or group == EVERY_USER]
    if not found:
        raise NoRoleError(f"{username} has no role here: {_without(groups)}; ask an operator for one", username)
    role = max((grant.role for grant in found), key=list(Role).index)
    return Caller(username, role, tuple(dict.fromkeys(dag for grant in found if grant.role is role for dag in grant.dags)))


def _without(groups: Collection[str]) -> str:
    if not groups:
        return "the login names no group"
    more = f" and {len(groups) - SHOWN} more" if len(groups) > SHOWN else ""
    return f"{PREFIX}LOGIN_ROLES gives none to its groups {', '.join(sorted(groups)[:SHOWN])}{more}"
