"""Who may do what: the one decision for the command line, the API and the pages."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase

import msgspec

from tidegate.daemon.settings import PREFIX, Settings, SettingsError


class Role(StrEnum):
    """What a caller may do in general. Each role may do what the ones before it may."""

    VIEWER = "viewer"
    EDITOR = "editor"
    OPERATOR = "operator"
    ADMIN = "admin"


class Right(StrEnum):
    """What a route needs. `EDIT` changes a DAG or its runs, `BACKFILL` its backfills, `OPERATE` the installation."""

    VIEW = "view"
    EDIT = "edit"
    BACKFILL = "backfill"
    OPERATE = "operate"
    ADMINISTER = "administer"


NEEDED = {
    Right.VIEW: Role.VIEWER,
    Right.EDIT: Role.EDITOR,
    Right.BACKFILL: Role.EDITOR,
    Right.OPERATE: Role.OPERATOR,
    Right.ADMINISTER: Role.ADMIN,
}
"""The least role that has a right."""

ANY_DAG = ("*",)


class Caller(msgspec.Struct, frozen=True):
    """A user or a program. `dags` are patterns of the ids of the DAGs that it may change; it may view all."""

    username: str
    role: Role
    dags: tuple[str, ...] = ANY_DAG


def refusal(settings: Settings, caller: Caller, right: Right, dag_id: str | None = None) -> str | None:
    """Why a caller may not do something, in one sentence; None: it may.

    `dag_id` is the DAG that would be changed. Raises SettingsError for `TIDEGATE_EDITORS` that cannot be read.
    """
    roles = list(Role)
    if roles.index(caller.role) < roles.index(NEEDED[right]):
        return f"{caller.username} has the role {caller.role}; this needs {NEEDED[right]}"
    if dag_id is None or right is Right.VIEW:
        return None
    if not any(fnmatchcase(dag_id, pattern) for pattern in caller.dags):
        return f"{caller.username} may change the DAGs {', '.join(caller.dags)}, not {dag_id!r}"
    if right is Right.BACKFILL and not _is_editor(settings, caller.username, dag_id):
        return f"{caller.username} may not change backfills of DAG {dag_id!r}; TIDEGATE_EDITORS names the users that may"
    return None


def _is_editor(settings: Settings, user: str, dag_id: str) -> bool:
    """Whether a user, `name` or `name@host`, may create and change backfills of a DAG.

    Any user may, unless patterns of `TIDEGATE_EDITORS` match the DAG: then one of these patterns has to name the user. Raises
    SettingsError for a setting that cannot be read.
    """
    matching = [users for pattern, users in editors(settings).items() if fnmatchcase(dag_id, pattern)]
    return not matching or any(name in users for users in matching for name in (user, user.partition("@")[0]))


def editors(settings: Settings) -> Mapping[str, Sequence[str]]:
    """By pattern of DAG ids, the users that may."""
    try:
        return msgspec.json.decode(settings.editors, type=dict[str, list[str]])
    except msgspec.DecodeError as error:
        example = '{"finance_*": ["anna", "ben@host"]}'
        raise SettingsError(f"{PREFIX}EDITORS cannot be read ({error}); write JSON like {example}") from error
