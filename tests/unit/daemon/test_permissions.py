"""Who may change a DAG."""

import msgspec
import pytest

from tidegate.daemon.permissions import can_edit
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
    assert can_edit(SET, user, dag_id) is expected
    assert can_edit(OPEN, user, dag_id)


@pytest.mark.parametrize("text", ["", "no", "[]", '{"a": "anna"}'])
def test_a_setting_that_cannot_be_read_says_how_to_write_it(text: str) -> None:
    with pytest.raises(SettingsError, match=r"TIDEGATE_EDITORS cannot be read .* write JSON like"):
        can_edit(msgspec.structs.replace(OPEN, editors=text), "anna", "d")
