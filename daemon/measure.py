"""Metrics: their names, types, labels and help texts, and what a process has counted.

Counting costs an addition for a batch, or for a run or attempt that ends. Nothing here knows Prometheus: `metrics/` does.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import accumulate, product
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import UNSET

from tidegate.schemas.dag import BACKENDS
from tidegate.schemas.effect.run import RunMoved
from tidegate.schemas.effect.submission import EndSubmission
from tidegate.schemas.state import RUN_ENDED, RunState, RunType

Labels = tuple[str, ...]
Lag = Callable[[], Mapping[int, int]]
"""The records that are left of each partition of a topic, by its number."""

DELAYS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 14_400)
"""The upper bounds of delays, from milliseconds to hours."""


class Label(msgspec.Struct, frozen=True):
    """A label: its `values`, or else what bounds their number."""

    name: str
    values: tuple[str, ...] = ()
    bound: str = ""


class Metric(msgspec.Struct, frozen=True, kw_only=True):
    """A metric. `of`: the daemon or `tidegate web` that counts it, or the installation, which both read from Postgres."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    of: Literal["process", "daemon", "web", "installation"]
    help: str
    labels: tuple[Label, ...] = ()


class Sample(NamedTuple):
    """A value of a metric, with the values of its labels in their order. For a histogram it is an observation."""

    metric: Metric
    value: float
    labels: Labels = ()


TOPIC = Label("topic", bound="the topics that daemons read")
OUTCOMES = ("recorded", "duplicate", "dead_letter")
BACKEND = Label("backend", tuple(sorted(set(BACKENDS.values()))))
RUN_TYPE = Label("run_type", tuple(RunType))
KIND_OF_LEASE = Label("kind", ("partition", "outbox", "clock"))
ENDS_OF_ATTEMPTS = ("succeeded", "failed", "killed", "lost")
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "other")

BUILD = Metric(
    name="tidegate_build_info",
    kind="gauge",
    of="process",
    help="The version of the process: always 1.",
    labels=(Label("version", bound="one at a time"),),
)
POSTGRES_UP = Metric(
    name="tidegate_scrape_postgres_up",
    kind="gauge",
    of="process",
    help="Whether the last read of the installation from Postgres succeeded: 1 or 0.",
)
POSTGRES_AGE = Metric(
    name="tidegate_scrape_postgres_age_seconds",
    kind="gauge",
    of="process",
    help="Age of the values of the installation. They stay while Postgres is away. Absent before the first read.",
)

EVENTS = Metric(
    name="tidegate_events_total",
    kind="counter",
    of="daemon",
    help="Events from Kafka that the daemon handled, by what became of them.",
    labels=(TOPIC, Label("outcome", OUTCOMES)),
)
LAG = Metric(
    name="tidegate_intake_lag_records",
    kind="gauge",
    of="daemon",
    help="Offsets of a partition of this daemon that Kafka has and no transaction has handled, as of the last fetch.",
    labels=(TOPIC, Label("partition", bound="the partitions of these topics")),
)
RUNS_ENDED = Metric(
    name="tidegate_runs_ended_total",
    kind="counter",
    of="daemon",
    help="Runs that ended by a decision of this daemon. A cleared run that ends again counts again.",
    labels=(RUN_TYPE, Label("state", tuple(sorted(RUN_ENDED)))),
)
ATTEMPTS_ENDED = Metric(
    name="tidegate_attempts_ended_total",
    kind="counter",
    of="daemon",
    help="Attempts of tasks whose end this daemon recorded.",
    labels=(BACKEND, Label("state", ENDS_OF_ATTEMPTS)),
)
RUN_DELAY = Metric(
    name="tidegate_run_creation_delay_seconds",
    kind="histogram",
    of="daemon",
    help="Time from the newest event of a run, as its producer tells it, to the creation of the run.",
)
TASK_DELAY = Metric(
    name="tidegate_task_start_delay_seconds",
    kind="histogram",
    of="daemon",
    help="Time from a task that is ready to the recorded acceptance of its attempt: the wait for slots, and the submit.",
    labels=(BACKEND,),
)
NOTIFIED = Metric(
    name="tidegate_notifications_ended_total",
    kind="counter",
    of="daemon",
    help="Tries of this daemon to deliver a notification.",
    labels=(Label("kind", ("email", "webhook", "function")), Label("outcome", ("sent", "failed"))),
)
OUTAGES = Metric(
    name="tidegate_outages",
    kind="gauge",
    of="daemon",
    help="1 for each server that does not answer this daemon, and for each of its duties that fails. Absent when all is well.",
    labels=(Label("component", bound="50: servers, duties, partitions that are not read"),),
)
HELD_LEASES = Metric(
    name="tidegate_leases_held",
    kind="gauge",
    of="daemon",
    help="Leases that this daemon holds and may work with now.",
    labels=(KIND_OF_LEASE,),
)
SPOOL = Metric(
    name="tidegate_spool_bytes",
    kind="gauge",
    of="daemon",
    help="Size of the files in the spool of this host, measured once a minute at most.",
)

REQUESTS = Metric(
    name="tidegate_http_requests_total",
    kind="counter",
    of="web",
    help="Requests that this process answered.",
    labels=(Label("method", METHODS), Label("code", bound="the status codes of HTTP")),
)
REQUEST_TIME = Metric(
    name="tidegate_http_request_duration_seconds",
    kind="histogram",
    of="web",
    help="Time from a request to the end of its answer, without streams of changes.",
)
STREAMS = Metric(name="tidegate_streams_open", kind="gauge", of="web", help="Streams of changes that are open at this process.")

DAEMONS = Metric(name="tidegate_daemons", kind="gauge", of="installation", help="Daemons that are alive.")
LEASES = Metric(
    name="tidegate_leases",
    kind="gauge",
    of="installation",
    help="Leases by state: with a live daemon, without one, or halted until a user resumes the partition.",
    labels=(KIND_OF_LEASE, Label("state", ("owned", "free", "halted"))),
)
OUTBOX = Metric(
    name="tidegate_outbox_events", kind="gauge", of="installation", help="Events that wait to be published, counted up to 10,001."
)
OUTBOX_AGE = Metric(
    name="tidegate_outbox_oldest_seconds",
    kind="gauge",
    of="installation",
    help="Age of the oldest event that waits to be published; 0 without one.",
)
ACTIVE_RUNS = Metric(
    name="tidegate_runs_active",
    kind="gauge",
    of="installation",
    help="Runs that have not ended, counted up to 10,001 in all.",
    labels=(RUN_TYPE, Label("state", (RunState.QUEUED, RunState.RUNNING))),
)
TASKS = Metric(
    name="tidegate_tasks_active",
    kind="gauge",
    of="installation",
    help="Tasks that occupy slots, and tasks that wait for slots, each counted up to 10,001.",
    labels=(Label("state", ("occupying", "waiting")),),
)
OPEN_ATTEMPTS = Metric(
    name="tidegate_attempts_open",
    kind="gauge",
    of="installation",
    help="Attempts that have not ended, each state counted up to 10,001.",
    labels=(BACKEND, Label("state", ("intent", "submitting", "accepted"))),
)
POOL_WAIT = Metric(
    name="tidegate_pool_oldest_wait_seconds",
    kind="gauge",
    of="installation",
    help="Longest wait of a task for slots of a pool, without backfills, held DAGs and paused DAGs; 0 without one.",
    labels=(Label("pool", bound="the first 100 pools by name"),),
)
DEAD_LETTERS = Metric(
    name="tidegate_dead_letters_open", kind="gauge", of="installation", help="Open dead letters, counted up to 10,001."
)
NOTIFICATIONS = Metric(
    name="tidegate_notifications",
    kind="gauge",
    of="installation",
    help="Notifications that are to be sent (open), and that were given up and are still kept (failed), each up to 10,001.",
    labels=(Label("state", ("open", "failed")),),
)
HELD_DAGS = Metric(
    name="tidegate_dags_held", kind="gauge", of="installation", help="DAGs that are held because a decision about them failed."
)
BROKEN_FILES = Metric(name="tidegate_dag_files_broken", kind="gauge", of="installation", help="DAG files that cannot be parsed.")
TRANSACTION_AGE = Metric(
    name="tidegate_postgres_oldest_transaction_seconds",
    kind="gauge",
    of="installation",
    help="Age of the oldest open transaction in the database, of any program, as far as the role may see it.",
)
ROW_HOLDERS = Metric(
    name="tidegate_postgres_row_holders",
    kind="gauge",
    of="installation",
    help="Sessions that hold rows of Tidegate for long.",
)
LOSSES = Metric(
    name="tidegate_commit_losses_open", kind="gauge", of="installation", help="Losses of commits that no user has settled."
)

METRICS: Sequence[Metric] = tuple(value for value in list(globals().values()) if isinstance(value, Metric))


class Delays:
    """The observations of a histogram. `counts` has one more bucket, for what exceeds all bounds."""

    def __init__(self) -> None:
        self.counts = [0] * (len(DELAYS_S) + 1)
        self.total_s = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(DELAYS_S, seconds)] += 1
        self.total_s += seconds

    @property
    def cumulative(self) -> list[int]:
        return list(accumulate(self.counts))


class Measurements:
    """What a process has counted since it began. It is used in one thread."""

    def __init__(self) -> None:
        self.counters: defaultdict[str, defaultdict[Labels, float]] = defaultdict(lambda: defaultdict(float))
        self.delays: defaultdict[str, defaultdict[Labels, Delays]] = defaultdict(lambda: defaultdict(Delays))
        self._lags: dict[str, Lag] = {}

    def begin(self, *given: Metric, topics: Collection[str] = ()) -> None:
        """Give each combination of known labels a zero: a rate needs a value before the first event."""
        for metric in given:
            known = [topics if label is TOPIC else label.values for label in metric.labels]
            for labels in product(*known):
                if metric.kind == "histogram":
                    self.delays[metric.name].setdefault(labels, Delays())
                else:
                    self.counters[metric.name].setdefault(labels, 0)

    @contextmanager
    def reading(self, topic: str, lag: Lag) -> Iterator[None]:
        """Ask `lag` at each scrape while a topic is read."""
        self._lags[topic] = lag
        try:
            yield
        finally:
            del self._lags[topic]

    def lags(self) -> Iterator[Sample]:
        """How far the partitions of this process are behind."""
        for topic, lag in self._lags.items():
            yield from (Sample(LAG, records, (topic, str(partition))) for partition, records in lag().items())

    def add(self, samples: Iterable[Sample]) -> None:
        for metric, value, labels in samples:
            if metric.kind == "histogram":
                self.delays[metric.name][labels].observe(value)
            else:
                self.counters[metric.name][labels] += value


def of_events(topic: str, counts: Mapping[str, int]) -> Iterator[Sample]:
    """A batch of records of a topic, by outcome."""
    return (Sample(EVENTS, count, (topic, outcome)) for outcome, count in counts.items() if count)


def of_effects(effects: Iterable[Any]) -> Iterator[Sample]:
    """What the effects of a batch mean for the metrics of the daemon that performed them."""
    for effect in effects:
        if type(effect) is RunMoved:
            yield from _of_run(effect)
        elif type(effect) is EndSubmission:
            yield Sample(ATTEMPTS_ENDED, 1, (effect.backend, effect.state))


def _of_run(moved: RunMoved) -> Iterator[Sample]:
    event = moved.event
    if event.state in RUN_ENDED and event.missed_deadline is UNSET:
        yield Sample(RUNS_ENDED, 1, (event.run_type, event.state))
    elif event.seq == 1 and event.run_type == RunType.DATASET:
        yield Sample(RUN_DELAY, seconds_between(event.run_after, event.at))


def seconds_between(since: datetime, until: datetime) -> float:
    """0 where the clock of a producer is ahead."""
    return max(0.0, (until - since).total_seconds())
