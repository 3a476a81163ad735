"""The current state of every run, read from the run-state topic.

states = RunStates("localhost:9092")
await states.catch_up()  # read to the current end of the topic
print(states["daily_delays", "dataset__2026-03-29"].state)

async for event in states.changes():  # continue from there without end
    print(event.dag_id, event.run_id, event.state)
"""

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import aclosing

from tidegate.events import topics
from tidegate.events.security import PLAINTEXT
from tidegate.events.subscriber import GapError, Subscription, read_states
from tidegate.schemas.kafka_security import KafkaSecurity
from tidegate.schemas.wire.event import DagRunStateChanged, Kind, StateChanged


class RunStates(Mapping[tuple[str, str], DagRunStateChanged]):
    """The last event of each run: a mapping from `(dag_id, run_id)`, which changes only inside `catch_up` and `changes`.

    The topic is compacted: older events of a run may be gone, its last one is always there. Repeated events are dropped by their
    `seq`. An event that reveals a gap before it counts in `gaps` and calls `on_gap`; the state is correct again with that event.
    It keeps one event of every run in memory.
    """

    def __init__(
        self,
        servers: str,
        *,
        topic_prefix: str = "tidegate.",
        on_gap: Callable[[GapError], None] | None = None,
        security: KafkaSecurity = PLAINTEXT,
    ) -> None:
        """Does not connect yet. `servers`: host:port, several separated by commas. `topic_prefix`: the setting of the daemons.

        `security`: TLS and login; by default none, and `KafkaSecurity.from_environ(os.environ)` reads the settings.
        """
        self.gaps = 0
        self._servers = servers
        self._security = security
        self._on_gap = on_gap
        last_events = _LastEvents()
        self._runs = last_events.events
        kinds = {topics.name(topic_prefix, Kind.DAG_RUN_STATE): Kind.DAG_RUN_STATE}
        self._subscription = Subscription(kinds, self._count_gap, last_events)

    def __getitem__(self, run: tuple[str, str]) -> DagRunStateChanged:
        return self._runs[run]

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._runs)

    def __len__(self) -> int:
        return len(self._runs)

    def of(self, dag_id: str) -> Mapping[str, DagRunStateChanged]:
        """The runs of a DAG by `run_id`, as a copy. Searches all runs."""
        return {run_id: event for (dag, run_id), event in self._runs.items() if dag == dag_id}

    async def catch_up(self) -> None:
        """Read to the current end of the topic. It waits for partitions without a leader.

        Raises UnavailableError when Kafka is away at the first connection; later ones are retried. RequestError for no topic.
        A cancelled call can be repeated: it continues where it stopped.
        """
        async with aclosing(self._read()) as events:
            async for event in events:
                if event is None and self._subscription.has_caught_up:
                    return

    async def changes(self) -> AsyncGenerator[DagRunStateChanged]:
        """Each further state of a run, once, without end. Raises as `catch_up`."""
        async with aclosing(self._read()) as events:
            async for event in events:
                if isinstance(event, DagRunStateChanged):
                    yield event

    def _read(self) -> AsyncGenerator[StateChanged | None]:
        return read_states(self._servers, self._subscription, from_beginning=True, security=self._security)

    def _count_gap(self, gap: GapError) -> None:
        self.gaps += 1
        if self._on_gap is not None:
            self._on_gap(gap)


class _LastEvents:
    """The last event of every run."""

    def __init__(self) -> None:
        self.events: dict[tuple[str, str], DagRunStateChanged] = {}

    def record(self, event: StateChanged) -> bool:
        """Store the event unless it is repeated. Raises GapError when its predecessor is missing."""
        if not isinstance(event, DagRunStateChanged):
            return False
        last = self.events.get((event.dag_id, event.run_id))
        if last is not None and event.seq <= last.seq:
            return False
        self.events[event.dag_id, event.run_id] = event
        if last is not None and event.seq > last.seq + 1:
            raise GapError(event, last.seq + 1)
        return True
