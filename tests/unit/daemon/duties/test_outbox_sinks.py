"""Which sinks a daemon has for the shards that it holds."""

from collections.abc import Sequence
from typing import cast

import anyio
import pytest

from tidegate.daemon.duties import outbox_sinks
from tidegate.daemon.duties.outbox_sinks import OutboxSinks
from tidegate.events.outbox_sink import OutboxSink, RestingPartitions
from tidegate.events.sink import ProducerRecord
from tidegate.schemas.error import UnavailableError


class Unconnected:
    """A sink that knows whether it was closed. `failures` are those of its tries to connect; it waits until it may connect."""

    def __init__(self, id_: str) -> None:
        self.id = id_
        self.is_connected = False
        self.is_closed = False
        self.failures: list[UnavailableError] = []
        self.may_connect = anyio.Event()
        self.resting = RestingPartitions()

    async def connect(self) -> None:
        if self.failures:
            raise self.failures.pop(0)
        await self.may_connect.wait()
        self.is_connected = True

    async def send_available(self, records: Sequence[ProducerRecord]) -> Sequence[None]:
        return [None] * len(records)

    async def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize(
    ("replaced_s", "held", "closed"),
    [
        (86_400.0, {1: 7, 2: 3}, [False, False]),
        (86_400.0, {1: 8, 2: 3}, [True, False]),
        (86_400.0, {2: 3}, [True, False]),
        # Kafka would forget an id that is not used again.
        (0.0, {1: 7, 2: 3}, [True, True]),
    ],
)
async def test_a_sink_is_closed_with_its_lease_and_after_a_day(
    replaced_s: float, held: dict[int, int], closed: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox_sinks, "REPLACED_S", replaced_s)
    made: list[Unconnected] = []

    def new_sink(id_: str) -> OutboxSink:
        made.append(Unconnected(id_))
        return cast(OutboxSink, made[-1])

    sinks = OutboxSinks(new_sink, "t.")
    await sinks.hold({1: 7, 2: 3})
    await sinks.hold(held)

    first = made[:2]
    assert [sink.is_closed for sink in sorted(first, key=lambda sink: sink.id)] == closed
    assert len(made) == 2 + sum(closed) - len({1, 2} - held.keys())


async def sinks_of_two(monkeypatch: pytest.MonkeyPatch) -> tuple[OutboxSinks, Unconnected, Unconnected]:
    """Of the shards 1 and 2, which wait for no one that takes longer than a moment."""
    monkeypatch.setattr(outbox_sinks, "PATIENCE_S", 0.01)
    monkeypatch.setattr(outbox_sinks, "REST_S", 0.0)
    made = {number: Unconnected(f"t.outbox-{number}") for number in (1, 2)}
    sinks = OutboxSinks(lambda id_: cast(OutboxSink, made[int(id_[-1])]), "t.")
    await sinks.hold({1: 7, 2: 3})
    return sinks, made[1], made[2]


async def test_a_sink_that_takes_long_to_connect_delays_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    sinks, slow, quick = await sinks_of_two(monkeypatch)
    quick.may_connect.set()

    found = await sinks.connect({1, 2})
    meanwhile = (sinks.connected, sinks.connecting, sinks.unconnected)
    slow.may_connect.set()
    await anyio.wait_all_tasks_blocked()
    await sinks.settle()

    assert (found, meanwhile) == (True, ({2}, {1}, {}))
    assert (sinks.connected, sinks.connecting) == ({1, 2}, set())


@pytest.mark.parametrize(("answers", "named"), [(True, [{}, {1: "no quorum"}, {}]), (False, [{}, {}, {}])])
async def test_a_sink_that_cannot_connect_is_tried_again_and_named_if_kafka_answers_others(
    monkeypatch: pytest.MonkeyPatch, answers: bool, named: list[dict[int, str]]
) -> None:
    sinks, away, quick = await sinks_of_two(monkeypatch)
    away.failures = [UnavailableError("no coordinator"), UnavailableError("no leader"), UnavailableError("no quorum")]
    away.may_connect.set()
    quick.may_connect.set()
    await sinks.connect({2})
    with pytest.raises(UnavailableError, match="no coordinator"):
        await sinks.connect({1})
    waiting, reasons = sinks.connecting, []

    for _ in named:
        if answers:
            await sinks.send_all([2], [ProducerRecord("topic", None, b"")])
        await sinks.settle()
        await anyio.wait_all_tasks_blocked()
        reasons.append(sinks.unconnected)
    await sinks.settle()

    assert (waiting, reasons) == ({1}, named)
    assert (sinks.connected, sinks.connecting) == ({1, 2}, set())


async def test_while_none_can_connect_all_are_tried_at_each_round(monkeypatch: pytest.MonkeyPatch) -> None:
    sinks, *both = await sinks_of_two(monkeypatch)
    for sink in both:
        sink.failures = [UnavailableError("away")]
        sink.may_connect.set()

    with pytest.raises(UnavailableError, match="away"):
        await sinks.connect({1, 2})
    meanwhile = (sinks.connecting, sinks.unconnected)
    found = await sinks.connect({1, 2})

    assert (meanwhile, found, sinks.connected) == ((set(), {}), True, {1, 2})


async def test_a_sink_without_a_lease_connects_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    sinks, slow, quick = await sinks_of_two(monkeypatch)
    quick.may_connect.set()
    await sinks.connect({1, 2})

    await sinks.hold({2: 3})
    slow.may_connect.set()
    await anyio.wait_all_tasks_blocked()

    assert (slow.is_closed, slow.is_connected, sinks.connecting) == (True, False, set())
