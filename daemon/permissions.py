"""Who may create and change the backfills of a DAG."""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

import msgspec

from tidegate.daemon.settings import PREFIX, Settings, SettingsError


def can_edit(settings: Settings, user: str, dag_id: str) -> bool:
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
