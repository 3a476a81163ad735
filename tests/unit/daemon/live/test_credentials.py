"""The check of tokens and sessions goes on after each failure."""

from typing import cast

import anyio
import anyio.lowlevel
import pytest

from tidegate.daemon.live import credentials
from tidegate.daemon.live.hub import Hub
from tidegate.daemon.postgres.database import Database
from tidegate.schemas.error import UnavailableError


async def test_a_fault_of_a_check_ends_no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    hub, checked = Hub(), anyio.Event()
    failures: list[Exception] = [UnavailableError("away", server="Postgres"), KeyError("ours")]

    async def check(*_: object) -> None:
        if failures:
            raise failures.pop()
        checked.set()

    monkeypatch.setattr(credentials, "CHECK_S", 0.0)
    monkeypatch.setattr(credentials, "end_invalid", check)
    async with anyio.create_task_group() as tg:
        tg.start_soon(credentials.watch, hub, cast(Database, None))
        with anyio.fail_after(30):
            await checked.wait()
            while hub.outages.away:  # the end of the last one follows the check
                await anyio.lowlevel.checkpoint()
        tg.cancel_scope.cancel()

    assert (failures, dict(hub.outages.away)) == ([], {})


class Silent:
    """Postgres does not answer."""

    async def autocommit(self, *_: object) -> set[str]:
        raise UnavailableError("away", server="Postgres")


async def test_an_outage_does_not_end_with_the_last_stream() -> None:
    hub, database = Hub(), cast(Database, Silent())
    await credentials.end_invalid(hub, database)
    hub.outages.begin(UnavailableError("away", server="Postgres"))

    with pytest.raises(UnavailableError):
        await credentials.end_invalid(hub, database)
