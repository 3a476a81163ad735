"""What producers send in a storm: events, the same ones again, and records that cannot be decoded."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from random import Random

import msgspec

from tests.storms.pipelines import INPUTS, uri
from tidegate.events.cloudevents import headers
from tidegate.schemas.wire.event import MAX_RECORD_BYTES, Kind

BAD = "storm-bad"
"""The header by which the checker knows a record that belongs among the dead letters. Daemons do not know it."""

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


def plan(random: Random, events: int, again_share: float, bad: int, inputs: int = INPUTS) -> list[Planned]:
    """In the order of sending: `events` different ones, a share of them more than once, and `bad` bad records."""
    good = [_event(random, number, inputs) for number in range(events)]
    order = [(float(place), record) for place, record in enumerate(good)]
    again = random.sample(range(events), int(events * again_share))
    order += [(place + random.uniform(0, AGAIN_WITHIN), good[place]) for place in again]
    order += [(random.uniform(0, events), _bad(random, number)) for number in range(bad)]
    order.sort(key=lambda pair: pair[0])
    return [record for _, record in order]


def event(number: int, at: datetime, dataset: str, source: str = "storm/0") -> Planned:
    """A dataset event as the publisher makes it."""
    value = msgspec.json.encode({"uri": dataset, "extra": {"number": number}})
    return Planned(dataset.encode(), value, headers(Kind.DATASET_UPDATED, event_id=f"event-{number}", source=source, time=at))


def _event(random: Random, number: int, inputs: int) -> Planned:
    dataset = f"storm://unheard/{number % 7}" if random.random() < UNHEARD_SHARE else uri(random.randrange(inputs))
    planned = event(number, BEGIN + timedelta(milliseconds=number), dataset, f"storm/{number % SOURCES}")
    return msgspec.structs.replace(planned, headers=()) if random.random() < BARE_SHARE else planned


def _bad(random: Random, number: int) -> Planned:
    kind = list(BAD_KINDS)[number % len(BAD_KINDS)]
    value, changed = BAD_KINDS[kind](random)
    dataset = uri(random.randrange(INPUTS))
    said = dict(headers(Kind.DATASET_UPDATED, event_id=f"bad-{number}", source="storm/bad", time=BEGIN))
    return Planned(dataset.encode(), value, [*{**said, **changed}.items(), (BAD, kind.encode())])


Made = tuple[bytes | None, Mapping[str, bytes]]
"""A value, and the headers that are not as they should be."""


def _rare_letters(random: Random) -> str:
    """As many characters as an id may have, in more bytes than Postgres can index twice."""
    return "".join(chr(random.randrange(0x20000, 0x2A6D0)) for _ in range(512))


def _nested(_: Random) -> Made:
    return b'{"uri": "storm://in/0", "extra": {"deep": ' + b"[" * 500 + b"]" * 500 + b"}}", {}


def _refused(random: Random) -> Made:
    """Refused by a constraint of the probes, which a daemon cannot know of."""
    return b'{"uri": "storm://in/0"}', {"ce_id": b"refused-%d" % random.randrange(1000)}


def _long_identity(random: Random) -> Made:
    return b'{"uri": "storm://in/0"}', {"ce_id": _rare_letters(random).encode(), "ce_source": _rare_letters(random).encode()}


BAD_KINDS: Mapping[str, Callable[[Random], Made]] = {
    "not_json": lambda _: (b"storm://in/0", {}),
    "no_uri": lambda _: (b'{"extra": {}}', {}),
    "uri_with_space": lambda _: (b'{"uri": "storm://in/0 "}', {}),
    "extra_is_no_object": lambda _: (b'{"uri": "storm://in/0", "extra": [1]}', {}),
    "nul": lambda _: (b'{"uri": "storm://in/0", "extra": {"text": "a\\u0000b"}}', {}),
    "no_value": lambda _: (None, {}),
    "other_type": lambda _: (b'{"uri": "storm://in/0"}', {"ce_type": b"com.example.something"}),
    "next_version": lambda _: (b'{"uri": "storm://in/0"}', {"ce_type": b"tidegate.dataset-updated.v2"}),
    "nested": _nested,
    "long_identity": _long_identity,
    "refused": _refused,
    "too_large": lambda _: (b'{"uri": "storm://in/0", "extra": {"text": "' + b"x" * MAX_RECORD_BYTES + b'"}}', {}),
    "no_identity": lambda _: (b'{"uri": "storm://in/0"}', {"ce_id": b""}),
    "first_time": lambda _: (b'{"uri": "storm://in/0"}', {"ce_time": b"0001-01-01T00:00:00Z"}),
    "last_time": lambda _: (b'{"uri": "storm://in/0"}', {"ce_time": b"9999-12-31T23:59:59.999999Z"}),
}
