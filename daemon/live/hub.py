"""The hub: gives each change to the open streams that want it, and keeps no more than a bounded queue for each."""

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from tidegate.daemon.live.message import KEEP_ALIVE, located, notice, position
from tidegate.daemon.live.recent import Change, Positions, Recent, Wanted
from tidegate.daemon.outage import Outages
from tidegate.daemon.wake import Signal
from tidegate.schemas.error import KAFKA

QUEUE = 1000
"""A stream that is this number of messages behind is told to read again instead."""

KEEP_ALIVE_S = 15.0

MOST_RUNS = 500
"""A message about more changed runs names none: its client reads again whatever it shows."""

LAGGING = "this stream was too slow: read again what you show"
UNKNOWN = "the changes since the Last-Event-ID are not known any more: read again what you show"
LOST = "changes before this moment may be missing: read again what you show"
STOPPING = "the server stops: connect again"

CONNECTING = "this server has not connected to Kafka yet"


class Owner(msgspec.Struct, frozen=True):
    """The caller of a stream, and the token or session that named it."""

    username: str
    credential_id: int


class OpenStream:
    """The messages for one client that are not sent yet.

    `coalesces`: all changes since the last message are one message that names their runs. `has_ended`: no message follows.
    """

    def __init__(self, hub: "Hub", wanted: Wanted, owner: Owner, *, coalesces: bool, limit: int = QUEUE) -> None:
        self.wanted = wanted
        self.owner = owner
        self.coalesces = coalesces
        self.has_ended = False
        self._hub = hub
        self._limit = limit
        self._runs: set[tuple[str, str]] = set()
        self._queue: deque[bytes] = deque()
        self._notice = b""
        self._last = b""
        self._signal = Signal()

    def put(self, change: Change) -> None:
        """Add a change. A full queue is dropped: the client is told to read again."""
        if self.coalesces:
            self._runs.add((change.dag_id, change.run_id))
        elif len(self._queue) < self._limit:
            self._queue.append(change.content)
        else:
            self.replace_by_reload(LAGGING)
        self._signal.set()

    def replace_by_reload(self, reason: str) -> None:
        """Changes are missing in this stream."""
        self._queue = deque([notice("reload", {"reason": reason})])
        self._signal.set()

    def show(self, message: bytes) -> None:
        """Replace the notice about servers."""
        self._notice = message
        self._signal.set()

    def end(self, reason: str) -> None:
        """End the stream with one more message, unless it ends already."""
        self._last = self._last or notice("end", {"reason": reason})
        self._signal.set()

    async def take(self) -> bytes:
        """The next messages, as soon as there are any; a comment after `KEEP_ALIVE_S` without. They end with the position."""
        await self._signal.wait(KEEP_ALIVE_S)
        messages = self._coalesced() if self.coalesces else b"".join([self._notice, *self._queue, self._last])
        self._queue.clear()
        self._notice = b""
        self.has_ended = bool(self._last)
        return (messages or KEEP_ALIVE) + self._hub.position()

    def _coalesced(self) -> bytes:
        """Each message has the position after the changes, which come first: a client that has one has had them."""
        runs, self._runs = self._runs, set()
        names = {"runs": sorted(runs)} if len(runs) <= MOST_RUNS else {}
        changed = [notice("changed", names)] if runs else []
        messages = [*changed, *self._queue, self._notice, self._last]
        return b"".join(located(each, self._hub.recent.encode()) for each in messages if each)


class Hub:
    """The open streams of a web process."""

    def __init__(self) -> None:
        self.recent = Recent()
        self.outages = Outages(lambda _: self._show_servers())
        self._streams: defaultdict[tuple[str | None, str | None], set[OpenStream]] = defaultdict(set)
        self._is_stopping = False

    def __iter__(self) -> Iterator[OpenStream]:
        for streams in list(self._streams.values()):
            yield from list(streams)

    def opened_by(self, username: str) -> int:
        """The number of streams that a caller has open."""
        return sum(stream.owner.username == username for stream in self)

    def open(self, wanted: Wanted, owner: Owner, *, coalesces: bool, after: str | None = None) -> OpenStream:
        """A stream that begins with the changes `after` a position, or else with the next change. The caller closes it."""
        stream = OpenStream(self, wanted, owner, coalesces=coalesces)
        stream.show(self._servers())
        if after is not None:
            self._repeat(stream, after)
        self._streams[wanted.dag_id, wanted.run_id].add(stream)
        if self._is_stopping:
            stream.end(STOPPING)
        return stream

    def _repeat(self, stream: OpenStream, after: str) -> None:
        missed = self.recent.after(after, stream.wanted)
        if missed is None:
            stream.replace_by_reload(UNKNOWN)
        for change in missed or ():
            stream.put(change)

    def close(self, stream: OpenStream) -> None:
        """Forget a stream whose client is gone."""
        key = stream.wanted.dag_id, stream.wanted.run_id
        self._streams[key].discard(stream)
        if not self._streams[key]:
            del self._streams[key]

    def begin(self, positions: Positions) -> None:
        """The consumer begins at a position, which is not the one after the last change."""
        self.recent.begin(positions)
        self._each(lambda stream: stream.replace_by_reload(LOST))
        self._show_servers()

    def resume(self, positions: Positions) -> None:
        """The consumer has connected: it begins, or goes on after the last change, unless partitions of its topics are gone."""
        if not self.recent.positions or self.recent.positions.keys() - positions.keys():
            self.begin(positions)

    def publish(self, changes: Sequence[Change], positions: Positions) -> None:
        """Give the changes to the streams. No stream can run between two of them, so that their position is exact."""
        self.recent.add(changes, positions)
        for change in changes:
            for key in ((None, None), (change.dag_id, None), (None, change.run_id), (change.dag_id, change.run_id)):
                for stream in self._streams.get(key, ()):
                    if stream.wanted.has(change):
                        stream.put(change)

    def position(self) -> bytes:
        """The position after all changes that were published; nothing before the first connection to Kafka."""
        return position(self.recent.encode()) if self.recent.positions else b""

    def end(self, reason: str, of: Callable[[OpenStream], bool] = lambda _: True) -> None:
        """End the streams that `of` chooses."""
        self._each(lambda stream: stream.end(reason) if of(stream) else None)

    def stop(self) -> None:
        """End all streams, and every stream that begins later."""
        self._is_stopping = True
        self.end(STOPPING)

    def _show_servers(self) -> None:
        message = self._servers()
        self._each(lambda stream: stream.show(message))

    def _servers(self) -> bytes:
        """The notice about the servers that are away: without one `live`."""
        away: Mapping[str, str] = {server: found.error for server, found in self.outages.away.items()}
        if not self.recent.positions:
            away = {KAFKA: CONNECTING, **away}
        return notice("away", {"servers": away}) if away else notice("live", {})

    def _each(self, act: Callable[[OpenStream], None]) -> None:
        for stream in self:
            act(stream)
