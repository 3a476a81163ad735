"""What a seed stands for: the DAGs, the daemons, what happens and how often things go wrong."""

from collections.abc import Collection, Sequence
from enum import StrEnum
from itertools import product
from random import Random
from typing import NamedTuple

import msgspec

from tests.simulation.dags import GROUPS, PAST
from tests.simulation.kafka import KAFKA
from tests.simulation.session import POSTGRES
from tests.simulation.spark import CLUSTER
from tests.simulation.user import requests
from tidegate.daemon.request import Request
from tidegate.schemas.queries import sources

RECORDS = "records"
"""It has read them, and not begun to take them."""

CLAIMS = "claims"
"""It has claimed attempts, and not submitted them."""

SENDS = "sends"
"""It has read rows of the outbox, and not sent them, or not connected to send them."""

LEASES = "leases"
"""It knows its share of the leases, and has not yet taken it."""

SHORT, LONG, OUTLIVED = "short", "long", "outlived"
"""A daemon is frozen until others have its leases; until something else has happened; or until they have done all of its work."""

FREEZES = [*product((RECORDS, CLAIMS, SENDS), (SHORT, LONG, OUTLIVED)), *3 * [(LEASES, SHORT)]]
"""At its leases it is in a transaction, which Postgres ends before long."""

EACH = 8
"""One of this number of seeds is about backfills. Which one is not drawn: the others mean what they meant before."""

APART = 2
"""In one of this number of seeds attempts have the events of their run read apart. Which one is not drawn either. A daemon that
is frozen in that read is outlived: only then does it read on when others have submitted what it had claimed."""

MOST_EVENTS = sources.MAX_EVENTS


class Publish(NamedTuple):
    """A producer sends this event of a dataset."""

    uri: str
    id: str


class Ask(NamedTuple):
    """A user asks for this."""

    request: Request


class Blow(StrEnum):
    """What happens to a daemon, or to a run at work that a user cancels."""

    CANCEL = "cancel"
    CRASH = "crash"
    STOP = "stop"
    FREEZE = "freeze"
    THAW = "thaw"
    PART = "part"
    HEAL = "heal"


Happening = Publish | Ask | Blow


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """`happenings` come in this order, one every few of `steps`; with `at_once` producers send all they have together.

    With `settled` the daemons have found their places before. `at_stake` is what a daemon is at that is frozen, and `frozen`
    for how long; or that is parted from the server that is `away`. Statements go wrong by `trouble`, calls to Kafka and the
    cluster by `call_trouble`. With `alone` one daemon is left when all comes to rest. Shares are of 1. The events of a run that
    has more than `most_events` are read page by page when an attempt is submitted.
    """

    group: str
    daemons: int
    ttl_s: float
    slots: tuple[int, int]
    backlog: int
    most_events: int
    parallelism: int
    away: str
    stickiness: float
    trouble: float
    call_trouble: float
    steps: int
    settled: bool
    at_once: bool
    at_stake: str
    frozen: str
    alone: bool
    happenings: Sequence[Happening]


def draw(chance: Random, groups: Collection[str], seed: int) -> Plan:
    """About one of these groups of DAGs, or of all."""
    is_past = not groups and seed % EACH == 3
    group = PAST if is_past else chance.choice(sorted(groups or GROUPS.keys() - {PAST}))
    daemons = chance.choice([2, 2, 2, 3])
    at_stake, frozen = chance.choice(FREEZES)
    reads_apart = seed % APART == 1
    return Plan(
        group=group,
        daemons=daemons,
        ttl_s=chance.choice([3.0, 10.0]),
        slots=(chance.choice([1, 2, 128]), chance.choice([2, 3])),
        backlog=chance.choice([2, 100]),
        most_events=0 if reads_apart else MOST_EVENTS,
        away=chance.choice([POSTGRES, POSTGRES, KAFKA, CLUSTER]),
        parallelism=chance.choice([0, 0, 0, 2]),
        stickiness=chance.choice([0.0, 0.5, 0.9]),
        trouble=chance.choice([0.0, 0.005, 0.01, 0.05]),
        call_trouble=chance.choice([0.0, 0.1, 0.3]),
        steps=chance.choice([160, 240, 320]),
        settled=chance.random() < 0.8,
        at_once=chance.random() < 0.5,
        at_stake=at_stake,
        frozen=OUTLIVED if reads_apart and at_stake == CLAIMS else frozen,
        alone=chance.random() < 0.8,
        happenings=_happenings(chance, group),
    )


def _happenings(chance: Random, group: str) -> Sequence[Happening]:
    events = _events(chance, GROUPS[group].uris)
    return _with_requests(chance, events) if group == PAST else events


def _events(chance: Random, uris: Sequence[str]) -> Sequence[Happening]:
    sent = [Publish(chance.choice(uris), f"e{number}") for number in range(chance.choice([1, 2, 3, 5]))]
    again = [chance.choice(sent) for _ in range(chance.choice([0, 0, 1]))]
    found: list[Happening] = [*sent, *again]
    for blow, share in ((Blow.CRASH, 0.3), (Blow.FREEZE, 0.5), (Blow.PART, 0.3), (Blow.STOP, 0.3), (Blow.CANCEL, 0.4)):
        found += [blow] * (chance.random() < share)
    first, *rest = found
    chance.shuffle(rest)
    for blow, end in ((Blow.FREEZE, Blow.THAW), (Blow.PART, Blow.HEAL)):
        rest += [end] * rest.count(blow)
    return [first, *rest]


def _with_requests(chance: Random, happenings: Sequence[Happening]) -> Sequence[Happening]:
    """What a user asks for, somewhere between the others, in its order."""
    found = list(happenings)
    asked = requests(chance)
    places = sorted(chance.randint(0, len(found)) for _ in asked)
    for before, (place, request) in enumerate(zip(places, asked, strict=True)):
        found.insert(before + place, Ask(request))
    return found
