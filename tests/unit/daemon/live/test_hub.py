"""The hub gives each stream its changes, and no stream more than its queue."""

import pytest

from tidegate.daemon.live.hub import LAGGING, MOST_RUNS, QUEUE, STOPPING, Hub, OpenStream, Owner
from tidegate.daemon.live.recent import Change, Wanted
from tidegate.events.source import Partition
from tidegate.schemas.error import UnavailableError
from tidegate.schemas.wire.event import Kind

PLACE = Partition("task", 0)


class Log:
    """A hub that is connected, and the changes that it publishes."""

    def __init__(self) -> None:
        self.hub = Hub()
        self.hub.begin({PLACE: 0})
        self.offset = 0

    def publish(self, *runs: str) -> None:
        changes = [
            Change(PLACE, self.offset + n, Kind.TASK_STATE, "d", run, f"data: {run}\n\n".encode()) for n, run in enumerate(runs)
        ]
        self.offset += len(runs)
        self.hub.publish(changes, {PLACE: self.offset})

    def open(self, run_id: str | None = None, *, coalesces: bool = False, user: str = "anna") -> OpenStream:
        return self.hub.open(Wanted(run_id=run_id), Owner(user, 1), coalesces=coalesces)


async def test_a_stream_begins_with_the_servers_and_ends_each_write_with_the_position() -> None:
    log = Log()
    stream = log.open("r")

    assert await stream.take() == b"event: live\ndata: {}\n\nid: 0\n\n"
    log.publish("r", "s", "r")
    assert await stream.take() == b"data: r\n\ndata: r\n\nid: 3\n\n"


async def test_a_stream_goes_on_with_a_new_connection_unless_a_partition_is_gone() -> None:
    log, fewer = Log(), {Partition("task", 1): 0}
    log.publish("r")
    log.hub.resume({PLACE: 1, **fewer})
    first = log.hub.recent.after("0", Wanted())
    log.hub.resume(fewer)
    log.hub.publish([], {Partition("task", 1): 7})

    assert [change.run_id for change in first or ()] == ["r"]
    assert (log.hub.recent.after("0", Wanted()), log.hub.position()) == ([], b"id: 7\n\n")


async def test_a_full_queue_is_replaced_by_one_message() -> None:
    log = Log()
    stream = log.open()
    await stream.take()
    log.publish(*["r"] * QUEUE)
    log.publish("too-much", "after")
    content = (await stream.take()).decode()

    assert LAGGING in content
    assert content.endswith("data: after\n\nid: 1002\n\n")
    assert "data: r\n" not in content


async def test_a_stream_that_coalesces_has_one_message_with_the_runs_and_the_position() -> None:
    log = Log()
    stream = log.open(coalesces=True)

    assert await stream.take() == b"id: 0\nevent: live\ndata: {}\n\nid: 0\n\n"
    log.publish(*["r", "a"] * QUEUE)
    assert await stream.take() == b'id: 2000\nevent: changed\ndata: {"runs":[["d","a"],["d","r"]]}\n\nid: 2000\n\n'
    log.publish("r")
    assert await stream.take() == b'id: 2001\nevent: changed\ndata: {"runs":[["d","r"]]}\n\nid: 2001\n\n'


@pytest.mark.parametrize(("runs", "has_names"), [(MOST_RUNS, True), (MOST_RUNS + 1, False)])
async def test_a_message_about_many_runs_names_none(runs: int, *, has_names: bool) -> None:
    log = Log()
    stream = log.open(coalesces=True)
    log.publish(*map(str, range(runs)))

    assert (b'"runs"' in await stream.take()) is has_names


async def test_of_a_stream_that_coalesces_the_changes_come_before_what_has_their_position() -> None:
    """A client that is cut off between two messages would miss them."""
    log = Log()
    stream = log.open(coalesces=True)
    await stream.take()
    log.publish("r")
    log.hub.outages.begin(UnavailableError("no answer"))

    names = [line for line in (await stream.take()).decode().splitlines() if line.startswith("event")]
    assert names == ["event: changed", "event: away"]


async def test_servers_that_are_away_are_shown_until_they_are_back() -> None:
    log = Log()
    stream = log.open()
    await stream.take()
    log.hub.outages.begin(UnavailableError("no answer"))
    away = await stream.take()
    log.hub.outages.end("Kafka")

    assert away == b'event: away\ndata: {"servers":{"Kafka":"no answer"}}\n\nid: 0\n\n'
    assert await stream.take() == b"event: live\ndata: {}\n\nid: 0\n\n"


async def test_before_the_first_connection_kafka_is_away() -> None:
    hub = Hub()
    stream = hub.open(Wanted(), Owner("anna", 1), coalesces=False)
    before = await stream.take()
    hub.begin({PLACE: 7})
    after = await stream.take()

    assert before.startswith(b"event: away")
    assert after.startswith(b"event: live\ndata: {}\n\nevent: reload\n")


async def test_an_end_is_the_last_message() -> None:
    log = Log()
    first, second = log.open("r"), log.open("s")
    log.hub.end("because", of=lambda stream: stream is first)
    log.hub.end("because of something else")

    assert b'event: end\ndata: {"reason":"because"}' in await first.take()
    assert first.has_ended
    assert not second.has_ended
    assert b"something else" in await second.take()


async def test_a_hub_that_stops_ends_also_new_streams() -> None:
    log = Log()
    log.hub.stop()
    stream = log.open()

    assert STOPPING.encode() in await stream.take()
    assert stream.has_ended


@pytest.mark.parametrize("run_id", [None, "r"])
async def test_a_closed_stream_is_forgotten(run_id: str | None) -> None:
    log = Log()
    stream, other = log.open(run_id), log.open("r", user="ben")
    assert log.hub.opened_by("anna") == 1
    log.hub.close(stream)

    assert list(log.hub) == [other]
    assert log.hub.opened_by("anna") == 0
