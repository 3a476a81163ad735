"""The audit of the event ledger: one outcome for each event and each of its subscribers. It only reads."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Protocol, TypeVar

import anyio
import msgspec

from tidegate.schemas.error import TooSlowError, UnavailableError
from tidegate.schemas.queries import audit
from tidegate.schemas.queries.audit import EventName, EventPage, Outcome, Problem
from tidegate.schemas.queries.db import Db

T = TypeVar("T")

FIRST_EVENTS, EVENTS_AT_ONCE = 50, 1000
PAIRS_AT_ONCE = 5_000
"""Pages of events are made smaller where these have many subscribers, which is known after a page."""

GROWTH = 4
PAUSES_S = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
"""Between the repeats of a page while Postgres is away."""

UNKNOWN = EventName(0, None, None, None)


class Ask(Protocol):
    """`Database.autocommit`."""

    def __call__(self, work: Callable[[Db], Awaitable[T]], /) -> Awaitable[T]: ...


class OutcomeCount(msgspec.Struct, frozen=True):
    """The number of outcomes of a kind."""

    outcome: str
    reason: str | None
    count: int


class Finding(msgspec.Struct, frozen=True):
    """A wrong outcome of an event for a DAG. The dataset and the identity of a missing event are None."""

    dag_id: str
    event: int
    uri: str | None
    source: str | None
    event_id: str | None
    problem: str


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """`due` is the expected number of outcomes: one per event and subscriber. `findings` are the first of all `wrong` ones.

    `unproven` events came before subscriptions were recorded: only their contradictions are found.
    """

    events: int
    due: int
    unproven: int
    outcomes: list[OutcomeCount]
    wrong: int
    findings: list[Finding]


async def audit_ledger(ask: Ask, most: int) -> Report:
    """Check every event and every outcome. The report has the first `most` findings."""
    auditor = Auditor(ask, most)
    await auditor.walk_events()
    for table in audit.TABLES:
        await auditor.walk_outcomes(table)
    return await auditor.report()


class Auditor:
    """An audit in progress, with its findings so far."""

    def __init__(self, ask: Ask, most: int) -> None:
        self._ask = ask
        self._most = most
        self._events = 0
        self._unproven = 0
        self._outcomes: Counter[Outcome] = Counter()
        self._lost = 0
        self._wrong = 0
        self._problems: list[Problem] = []

    async def walk_events(self) -> None:
        """From each event to its outcomes: finds lost ones."""
        after, at_once = 0, FIRST_EVENTS
        while (page := await self._answer(partial(audit.page_after, last=after, most=at_once))) is not None:
            try:
                counts, lost = await self._answer(partial(audit.outcomes, after=after, last=page.last))
            except TooSlowError:
                if page.events == 1:
                    raise
                at_once = page.events // 2
                continue
            self._count(page, counts, lost)
            at_once = next_size(at_once, page.events, sum(counts.values()) + len(lost))
            after = page.last

    async def walk_outcomes(self, table: str) -> None:
        """From each outcome to its event: finds superfluous ones."""
        begin: audit.OutcomeKey | None = audit.START
        while begin is not None:
            problems, begin = await self._answer(partial(audit.check, table=table, begin=begin))
            self._keep(problems)

    async def _answer(self, work: Callable[[Db], Awaitable[T]]) -> T:
        """Raises TooSlowError, and UnavailableError if Postgres is away for a minute."""
        for pause_s in PAUSES_S:
            try:
                return await self._ask(work)
            except TooSlowError:
                raise
            except UnavailableError:
                await anyio.sleep(pause_s)
        return await self._ask(work)

    def _count(self, page: EventPage, counts: Mapping[Outcome, int], lost: list[Problem]) -> None:
        self._events += page.events
        self._unproven += page.unproven
        self._outcomes.update(counts)
        self._lost += len(lost)
        self._keep(lost)

    def _keep(self, problems: list[Problem]) -> None:
        self._wrong += len(problems)
        self._problems += problems[: self._most - len(self._problems)]

    async def report(self) -> Report:
        names = await self._answer(partial(audit.names, ids=[problem.dataset_event_id for problem in self._problems]))
        findings = []
        for dag_id, id_, what in sorted(self._problems):
            name = names.get(id_, UNKNOWN)
            findings.append(Finding(dag_id, id_, name.uri, name.source, name.event_id, what))
        return Report(
            events=self._events,
            due=self._outcomes.total() + self._lost,
            unproven=self._unproven,
            outcomes=[OutcomeCount(*outcome, count) for outcome, count in sorted(self._outcomes.items(), key=_order)],
            wrong=self._wrong,
            findings=findings,
        )


def next_size(at_once: int, events: int, pairs: int) -> int:
    """The events of the next page, by the pairs of event and subscriber of the one before."""
    return max(1, min(EVENTS_AT_ONCE, at_once * GROWTH, PAIRS_AT_ONCE * events // max(pairs, 1)))


def _order(counted: tuple[Outcome, int]) -> tuple[str, str]:
    return counted[0].outcome, counted[0].reason or ""
