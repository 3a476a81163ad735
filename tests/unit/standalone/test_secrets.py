"""Secrets of the settings stay away from what tasks can read: other servers, the record and the log."""

import sys
from pathlib import Path

import pytest

from tidegate.daemon.postgres_address import has_password
from tidegate.daemon.standalone import background, record
from tidegate.daemon.standalone.log_file import own_log
from tidegate.daemon.standalone.process import inherited
from tidegate.schemas.error import RequestError


def test_a_server_inherits_no_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_SMTP_PASSWORD", "secret")
    monkeypatch.setenv("OTHERS", "kept")

    assert inherited()["OTHERS"] == "kept"
    assert [name for name, value in inherited().items() if name.startswith("TIDEGATE_") or value == "secret"] == []


@pytest.mark.parametrize(
    ("dsn", "expected"),
    [
        ("postgresql://postgres@127.0.0.1:5432/tidegate", False),
        ("postgresql://[::1]:5432,[::2]:5432/t", False),
        ("postgresql://u@h/t?passfile=/f", False),
        ("postgresql://u:p@h/t", True),
        ("postgresql://u:p%40q@a:1,b:2/t", True),
        ("postgresql://h/t?user=u&password=p", True),
        ("postgresql://u@h?sslpassword=p", True),
    ],
)
def test_a_password_is_not_told(dsn: str, expected: bool) -> None:
    assert has_password(dsn) is expected
    assert record.told({"postgres_dsn": dsn, "kafka_servers": "k"}).keys() ^ {"postgres_dsn", "kafka_servers"} == (
        {"postgres_dsn"} if expected else set()
    )


def test_the_log_of_a_start_begins_anew_and_is_for_its_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "COMMAND", (sys.executable, "-c", "print('again')"))
    own_log(tmp_path).write_text("/login?link=tdg_former\n" * 9)
    own_log(tmp_path).chmod(0o644)

    with pytest.raises(RequestError, match="standalone ended with exit code 0"):
        background.start(tmp_path, (), {}, print)

    assert own_log(tmp_path).read_text() == "again\n"
    assert own_log(tmp_path).stat().st_mode & 0o777 == 0o600
