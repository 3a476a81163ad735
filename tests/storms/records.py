"""What producers send in a storm: events, the same ones again, and records that cannot be decoded."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import NamedTuple

import msgspec

from tests.storms.pipelines import INPUTS, uri
from tidegate.events.cloudevents import headers
from tidegate.schemas.wire.event import MAX_RECORD_BYTES, Kind, Rejection

BAD = "storm-bad"
"""The header of a record that belongs among the dead letters, with the reason that it has there. Daemons do not know it."""

SOURCES = 4
BARE_SHARE = 0.03
"""How many events come without any envelope: each record of them is an event of its own."""
UNHEARD_SHARE = 0.02
"""How many are of datasets that no DAG waits for."""
AGAIN_WITHIN = 400
"""How many records later the same event may come again."""

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


class Planned(msgspec.Struct, frozen=True):
    """A record to be sent until Kafka has acknowledged it."""

    key: bytes
    value: bytes | None
    headers: Sequence[tuple[str, bytes]]


Made = tuple[bytes | None, Mapping[str, bytes | None]]
"""A value, and the headers that are not as they should be; None for a missing one."""


class Bad(NamedTuple):
    """A kind of bad record, and the reason of its dead letter."""

    reason: Rejection
    make: Callable[[Random], Made]


def plan(
    random: Random, events: int, again_share: float, bad: int, inputs: int = INPUTS, kinds: Mapping[str, Bad] | None = None
) -> list[Planned]:
    """In the order of sending: `events` different ones, a share of them more than once, and `bad` bad records of all kinds."""
    kinds = kinds or BAD_KINDS
    good = [_event(random, number, inputs) for number in range(events)]
    order = [(float(place), record) for place, record in enumerate(good)]
    again = random.sample(range(events), int(events * again_share))
    order += [(place + random.uniform(0, AGAIN_WITHIN), _elsewhere(random, good[place])) for place in again]
    order += [(random.uniform(0, events), _bad(random, number, kinds)) for number in range(bad)]
    order.sort(key=lambda pair: pair[0])
    return [record for _, record in order]


def event(number: int, at: datetime, dataset: str, source: str = "storm/0", event_id: str = "") -> Planned:
    """A dataset event as the publisher makes it."""
    value = msgspec.json.encode({"uri": dataset, "extra": {"number": number}})
    event_id = event_id or f"event-{number}"
    return Planned(dataset.encode(), value, headers(Kind.DATASET_UPDATED, event_id=event_id, source=source, time=at))


def _elsewhere(random: Random, planned: Planned) -> Planned:
    """The same event with another key, and so in another partition."""
    return msgspec.structs.replace(planned, key=b"copy-%d" % random.randrange(100))


def _event(random: Random, number: int, inputs: int) -> Planned:
    """Numbers that follow each other share an id: only the sources tell them apart."""
    dataset = f"storm://unheard/{number % 7}" if random.random() < UNHEARD_SHARE else uri(random.randrange(inputs))
    at, source, event_id = BEGIN + timedelta(milliseconds=number), f"storm/{number % SOURCES}", f"event-{number // SOURCES}"
    planned = event(number, at, dataset, source, event_id)
    return msgspec.structs.replace(planned, headers=()) if random.random() < BARE_SHARE else planned


def _bad(random: Random, number: int, kinds: Mapping[str, Bad]) -> Planned:
    kind = list(kinds)[number % len(kinds)]
    value, changed = kinds[kind].make(random)
    dataset = uri(random.randrange(INPUTS))
    said = dict(headers(Kind.DATASET_UPDATED, event_id=f"bad-{number}", source="storm/bad", time=BEGIN))
    left = [(name, content) for name, content in {**said, **changed}.items() if content is not None]
    return Planned(dataset.encode(), value, [*left, (BAD, kinds[kind].reason.encode())])


def _rare_letters(random: Random) -> str:
    """As many characters as an id may have, in more bytes than Postgres can index twice."""
    return "".join(chr(random.randrange(0x20000, 0x2A6D0)) for _ in range(512))


def _refused(random: Random) -> Made:
    """Refused by a constraint of the probes, which a daemon cannot know of."""
    return GOOD, {"ce_id": b"refused-%d" % random.randrange(1000)}


def _long_identity(random: Random) -> Made:
    return GOOD, {"ce_id": _rare_letters(random).encode(), "ce_source": _rare_letters(random).encode()}


def always(value: bytes | None, **changed: bytes | None) -> Callable[[Random], Made]:
    """The same value and headers each time."""
    return lambda _: (value, changed)


GOOD = b'{"uri": "storm://in/0"}'

BAD_KINDS: Mapping[str, Bad] = {
    "not_json": Bad(Rejection.MALFORMED, always(b"storm://in/0")),
    "no_uri": Bad(Rejection.INVALID, always(b'{"extra": {}}')),
    "uri_with_space": Bad(Rejection.INVALID, always(b'{"uri": "storm://in/0 "}')),
    "extra_is_no_object": Bad(Rejection.INVALID, always(b'{"uri": "storm://in/0", "extra": [1]}')),
    "nul": Bad(Rejection.INVALID, always(b'{"uri": "storm://in/0", "extra": {"text": "a\\u0000b"}}')),
    "no_value": Bad(Rejection.MALFORMED, always(None)),
    "other_type": Bad(Rejection.UNKNOWN_TYPE, always(GOOD, ce_type=b"com.example.something")),
    "next_version": Bad(Rejection.UNSUPPORTED_VERSION, always(GOOD, ce_type=b"tidegate.dataset-updated.v2")),
    "nested": Bad(Rejection.MALFORMED, always(b'{"uri": "storm://in/0", "extra": {"deep": ' + b"[" * 500 + b"]" * 500 + b"}}")),
    "long_identity": Bad(Rejection.INVALID, _long_identity),
    "refused": Bad(Rejection.UNPROCESSABLE, _refused),
    "too_large": Bad(
        Rejection.TOO_LARGE,
        lambda _: (b'{"uri": "storm://in/0", "extra": {"text": "' + b"x" * MAX_RECORD_BYTES + b'"}}', {}),
    ),
    "no_identity": Bad(Rejection.INVALID, always(GOOD, ce_id=b"")),
    "first_time": Bad(Rejection.INVALID, always(GOOD, ce_time=b"0001-01-01T00:00:00Z")),
    "last_time": Bad(Rejection.INVALID, always(GOOD, ce_time=b"9999-12-31T23:59:59.999999Z")),
}
