"""The state that every run is in, from the topic of run states alone.

states = RunStates("localhost:9092")
await states.catch_up()  # all that the topic has by now
print(states["daily_delays", "dataset__2026-03-29"].state)

async for event in states.changes():  # from there on, for ever
    print(event.dag_id, event.run_id, event.state)
"""

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import aclosing

from tidegate.events import topics
from tidegate.events.subscriber import Follower, GapError, follow
from tidegate.schemas.wire.event import DagRunStateChanged, Kind, StateChanged


class RunStates(Mapping[tuple[str, str], DagRunStateChanged]):
    """The last event of each run, by DAG and run. A mapping that changes only while `catch_up` or `changes` is waited for.

    The topic is compacted: the oldest events of a run may be gone, its last one is there. What comes a second time is dropped by
    its `seq`. Where one is missing between two that came, `gaps` is counted up and `on_gap` is told; the state is right again
    with the event that showed it.
    """

    def __init__(
        self, servers: str, *, topic_prefix: str = "tidegate.", on_gap: Callable[[GapError], None] | None = None
    ) -> None:
        """Nothing is read yet."""
        self.gaps = 0
        self._servers = servers
        self._on_gap = on_gap
        self._seen = _LastOfEach()
        self._runs = self._seen.events
        kinds = {topics.name(topic_prefix, Kind.DAG_RUN_STATE): Kind.DAG_RUN_STATE}
        self._follower = Follower(kinds, self._missed, self._seen)

    def __getitem__(self, run: tuple[str, str]) -> DagRunStateChanged:
        return self._runs[run]

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._runs)

    def __len__(self) -> int:
        return len(self._runs)

    def of(self, dag_id: str) -> Mapping[str, DagRunStateChanged]:
        """The runs of a DAG, by `run_id`."""
        return {run_id: event for (dag, run_id), event in self._runs.items() if dag == dag_id}

    async def catch_up(self) -> None:
        """Read on to where the topic ends now.

        Raises UnavailableError when Kafka is away at the first time (later it is waited for), RequestError when there is no such
        topic. May be cancelled: the next call goes on from there.
        """
        async with aclosing(self._read()) as events:
            async for event in events:
                if event is None and self._follower.has_caught_up:
                    return

    async def changes(self) -> AsyncGenerator[DagRunStateChanged]:
        """Each move of a run that comes after what was read, once, for as long as the caller iterates. Raises as `catch_up`."""
        async with aclosing(self._read()) as events:
            async for event in events:
                if isinstance(event, DagRunStateChanged):
                    yield event

    def _read(self) -> AsyncGenerator[StateChanged | None]:
        return follow(self._servers, self._follower, from_beginning=True)

    def _missed(self, gap: GapError) -> None:
        self.gaps += 1
        if self._on_gap is not None:
            self._on_gap(gap)


class _LastOfEach:
    """All runs, however many: nothing is forgotten."""

    def __init__(self) -> None:
        self.events: dict[tuple[str, str], DagRunStateChanged] = {}

    def is_new(self, event: StateChanged) -> bool:
        """Take it, unless it came before. Raises GapError when the one before it did not come."""
        if not isinstance(event, DagRunStateChanged):
            return False
        last = self.events.get((event.dag_id, event.run_id))
        if last is not None and event.seq <= last.seq:
            return False
        self.events[event.dag_id, event.run_id] = event
        if last is not None and event.seq > last.seq + 1:
            raise GapError(event, last.seq + 1)
        return True
