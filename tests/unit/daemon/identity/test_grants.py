"""The rights of users whom another service knows."""

import msgspec
import pytest

from tidegate.daemon.identity.grants import RefusedLoginError, caller_of, grants_of
from tidegate.daemon.permissions import ANY_DAG, Role
from tidegate.daemon.settings import Settings, SettingsError

NONE = Settings(postgres_dsn="", kafka_servers="")
SET = msgspec.structs.replace(
    NONE,
    login_roles='{"ops": "operator", "fin": {"role": "editor", "dags": ["fin_*"]}, "mkt": {"role": "editor", "dags": ["mkt_*"]}}',
)
FOR_ALL = msgspec.structs.replace(NONE, login_roles='{"*": "viewer", "ops": "admin"}')


@pytest.mark.parametrize(
    ("settings", "groups", "role", "dags"),
    [
        (SET, ["fin"], Role.EDITOR, ("fin_*",)),
        (SET, ["mkt", "fin", "other"], Role.EDITOR, ("fin_*", "mkt_*")),
        (SET, ["fin", "ops"], Role.OPERATOR, ANY_DAG),
        (FOR_ALL, [], Role.VIEWER, ANY_DAG),
        (FOR_ALL, ["ops"], Role.ADMIN, ANY_DAG),
    ],
)
def test_the_highest_role_of_the_groups_counts(settings: Settings, groups: list[str], role: Role, dags: tuple[str, ...]) -> None:
    caller = caller_of(grants_of(settings), "anna", groups)

    assert (caller.username, caller.role, caller.dags) == ("anna", role, dags)


@pytest.mark.parametrize(
    ("settings", "username", "groups", "reason"),
    [
        (SET, "anna", [], "anna has no role here: the login names no group; ask an operator for one"),
        (SET, "anna", ["b", "a"], "TIDEGATE_LOGIN_ROLES gives none to its groups a, b; ask"),
        (SET, "anna", [f"g{n:02}" for n in range(12)], "g00, g01, g02, g03, g04, g05, g06, g07, g08, g09 and 2 more; ask"),
        (SET, "anna", ["*"], "gives none to its groups"),
        (NONE, "anna", ["ops"], "has no role here"),
        (FOR_ALL, "", [], "the user name '' cannot be used: a name is 1 to 100 of"),
        (FOR_ALL, "two words", [], "cannot be used"),
        (FOR_ALL, "a" * 101, [], "cannot be used"),
        (FOR_ALL, 7, [], "the user name 7 cannot be used"),
    ],
)
def test_a_user_without_a_role_or_a_name_is_refused(settings: Settings, username: object, groups: list[str], reason: str) -> None:
    with pytest.raises(RefusedLoginError) as refused:
        caller_of(grants_of(settings), username, groups)

    assert reason in str(refused.value)


@pytest.mark.parametrize(
    "text", ["", "no", "[]", '{"a": "boss"}', '{"a": {"dags": ["b"]}}', '{"a": {"role": "editor", "dag": "b"}}']
)
def test_a_setting_that_cannot_be_read_says_how_to_write_it(text: str) -> None:
    with pytest.raises(SettingsError, match=r"LOGIN_ROLES cannot be read .* a role is one of viewer, .* write JSON like"):
        grants_of(msgspec.structs.replace(NONE, login_roles=text))
