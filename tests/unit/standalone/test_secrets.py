"""Secrets of the settings stay away from what tasks can read: other servers, the record and the log."""

import sys
from pathlib import Path

import pytest

from tidegate.daemon.postgres.address import has_password
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


@pytest.mark.parametrize(
    ("clusters", "expected"),
    [
        ("{}", False),
        ('{"a": {"master": "spark://m1:7077,m2:7077", "remote": "sc://m1:15002"}}', False),
        ('{"a": {"master": "yarn"}, "b": {"remote": "sc://h:443/;use_ssl=true;token=t"}}', True),
        ('{"b": {"remote": "sc://h:443/\\u003btoken=t"}}', True),
        ('{"a": {"master": "k8s://https://u:p@h:6443"}}', True),
    ],
)
def test_clusters_that_may_have_a_token_are_not_told(clusters: str, expected: bool) -> None:
    settings = {"postgres_dsn": "postgresql://h/t", "spark_clusters": clusters}

    assert record.untold(settings) == (("spark_clusters",) if expected else ())
    assert record.told(settings).keys() == {"postgres_dsn"} | (set() if expected else {"spark_clusters"})


def test_a_master_with_a_user_is_not_told() -> None:
    assert record.untold({"spark_master": "k8s://https://u:p@h:6443"}) == ("spark_master",)
    assert record.untold({"spark_master": "local[2]"}) == ()


def test_the_log_of_a_start_begins_anew_and_is_for_its_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "COMMAND", (sys.executable, "-c", "print('again')"))
    own_log(tmp_path).write_text("/login?link=tdg_former\n" * 9)
    own_log(tmp_path).chmod(0o644)

    with pytest.raises(RequestError, match="standalone ended with exit code 0"):
        background.start(tmp_path, (), {}, print)

    assert own_log(tmp_path).read_text() == "again\n"
    assert own_log(tmp_path).stat().st_mode & 0o777 == 0o600
