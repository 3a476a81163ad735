"""Who may change a DAG."""

import msgspec
import pytest

from tidegate.daemon.permissions import Caller, Right, Role, refusal
from tidegate.daemon.settings import Settings, SettingsError

OPEN = Settings(postgres_dsn="", kafka_servers="")
SET = msgspec.structs.replace(OPEN, editors='{"finance_*": ["anna", "ben@host"], "*_daily": ["cleo"]}')


@pytest.mark.parametrize(
    ("user", "dag_id", "expected"),
    [
        ("dora@host", "report", True),
        ("anna@host", "finance_daily", True),
        ("anna", "finance_month", True),
        ("cleo@host", "finance_daily", True),
        ("cleo@host", "finance_month", False),
        ("ben@host", "finance_month", True),
        ("ben@other", "finance_month", False),
        ("dora@host", "finance_month", False),
    ],
)
def test_a_dag_that_a_pattern_names_has_editors(user: str, dag_id: str, *, expected: bool) -> None:
    caller = Caller(user, Role.EDITOR)

    assert (refusal(SET, caller, Right.BACKFILL, dag_id) is None) is expected
    assert refusal(OPEN, caller, Right.BACKFILL, dag_id) is None


@pytest.mark.parametrize("text", ["", "no", "[]", '{"a": "anna"}'])
def test_a_setting_that_cannot_be_read_says_how_to_write_it(text: str) -> None:
    with pytest.raises(SettingsError, match=r"TIDEGATE_EDITORS cannot be read .* write JSON like"):
        refusal(msgspec.structs.replace(OPEN, editors=text), Caller("anna", Role.EDITOR), Right.BACKFILL, "d")


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("right", Right)
def test_a_role_has_the_rights_of_the_ones_before_it(role: Role, right: Right) -> None:
    least = {"view": 0, "edit": 1, "backfill": 1, "operate": 2, "administer": 3}[right]

    assert (refusal(OPEN, Caller("anna", role), right) is None) is (list(Role).index(role) >= least)


@pytest.mark.parametrize(
    ("caller", "right", "dag_id", "reason"),
    [
        (Caller("anna", Role.VIEWER), Right.EDIT, "a", "anna has the role viewer; this needs editor"),
        (Caller("anna", Role.EDITOR, ("a*",)), Right.EDIT, "abc", None),
        (Caller("anna", Role.EDITOR, ("a*", "b")), Right.EDIT, "c", "anna may change the DAGs a*, b, not 'c'"),
        (Caller("anna", Role.ADMIN, ("a*",)), Right.EDIT, "c", "anna may change the DAGs a*, not 'c'"),
        (Caller("anna", Role.VIEWER, ("a*",)), Right.VIEW, "c", None),
        (Caller("cleo", Role.EDITOR), Right.EDIT, "finance_month", None),
        (Caller("anna", Role.EDITOR), Right.BACKFILL, "finance_month", None),
        (
            Caller("cleo", Role.ADMIN),
            Right.BACKFILL,
            "finance_month",
            "cleo may not change backfills of DAG 'finance_month'; TIDEGATE_EDITORS names the users that may",
        ),
    ],
)
def test_a_refusal_says_why(caller: Caller, right: Right, dag_id: str, reason: str | None) -> None:
    assert refusal(SET, caller, right, dag_id) == reason
