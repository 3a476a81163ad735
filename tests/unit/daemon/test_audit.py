"""How the audit of the ledger divides its pages, and what it makes of a Postgres that is slow or away."""

from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from tidegate.daemon import audit
from tidegate.daemon.audit import Auditor, next_size
from tidegate.schemas.error import TooSlowError, UnavailableError
from tidegate.schemas.queries import audit as queries
from tidegate.schemas.queries.audit import EventPage, Outcome
from tidegate.schemas.queries.db import Db

PENDING = Outcome("pending", None)
EVENTS = 300


class Ledger:
    """Answers pages of events that have one subscriber each, as long as they are small; `away` answers fail before."""

    def __init__(self, most: int, away: int = 0) -> None:
        self._most = most
        self._away = away
        self.slow: list[int] = []

    async def __call__(self, work: Callable[[Db], Awaitable[Any]], /) -> Any:
        if self._away:
            self._away -= 1
            raise UnavailableError("away", server="Postgres")
        assert isinstance(work, partial)
        facts = work.keywords
        if work.func is queries.page_after:
            last = min(facts["last"] + facts["most"], EVENTS)
            return EventPage(last, last - facts["last"], 0) if last > facts["last"] else None
        size = facts["last"] - facts["after"]
        if size > self._most:
            self.slow.append(size)
            raise TooSlowError("too slow", server="Postgres")
        return Counter({PENDING: size}), []


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "PAUSES_S", (0.0, 0.0))


@pytest.mark.parametrize(
    ("at_once", "events", "pairs", "size"),
    [
        pytest.param(50, 50, 50, 200, id="grows fourfold"),
        pytest.param(800, 800, 800, 1000, id="to a limit"),
        pytest.param(50, 50, 20_000, 12, id="smaller with many subscribers"),
        pytest.param(50, 2, 20_000, 1, id="one event at least"),
        pytest.param(50, 50, 0, 200, id="without a subscriber"),
    ],
)
def test_a_page_follows_the_pairs_of_the_one_before(at_once: int, events: int, pairs: int, size: int) -> None:
    assert next_size(at_once, events, pairs) == size


@pytest.mark.anyio
async def test_a_page_that_is_too_slow_is_read_in_smaller_ones() -> None:
    auditor = Auditor(ledger := Ledger(most=20), 10)

    await auditor.walk_events()

    assert (auditor._events, auditor._outcomes[PENDING]) == (EVENTS, EVENTS)
    assert ledger.slow[:2] == [50, 25]


@pytest.mark.anyio
async def test_one_event_that_is_too_slow_is_an_error() -> None:
    with pytest.raises(TooSlowError):
        await Auditor(Ledger(most=0), 10).walk_events()


@pytest.mark.anyio
@pytest.mark.parametrize(("away", "is_out"), [(2, False), (3, True)])
async def test_a_page_is_read_again_while_postgres_is_away(away: int, *, is_out: bool) -> None:
    auditor = Auditor(Ledger(most=1000, away=away), 10)

    if is_out:
        with pytest.raises(UnavailableError):
            await auditor.walk_events()
    else:
        await auditor.walk_events()
        assert auditor._events == EVENTS
