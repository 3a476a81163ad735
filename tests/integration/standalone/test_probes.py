"""Probes of servers while what they ask is there only in part."""

import sys
from pathlib import Path

import pytest

from tidegate.daemon.standalone.daemon import Daemon
from tidegate.daemon.standalone.process import ServerError

SLEEP = (sys.executable, "-c", "import time; time.sleep(600)")


async def test_a_statement_that_fails_is_no_answer(empty_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Daemon, "start_s", 0.3)

    with pytest.raises(ServerError, match=r"^The daemon did not answer within 0.3 s"):
        await Daemon(tmp_path / "daemon", {"postgres_dsn": empty_dsn}, SLEEP).start()
