"""The test of a DAG, from its events to the ends of its runs."""

from collections.abc import Sequence
from datetime import UTC, datetime
from os import environ
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Unpack

import msgspec

from tidegate.daemon.settings import PREFIX, read
from tidegate.daemon.spark.runner.own_session import LazySession, own_session
from tidegate.daemon.trial.attempt import Attempts
from tidegate.daemon.trial.run import RunOfTrial
from tidegate.daemon.trial.scheduler import Scheduler
from tidegate.handlers.scheduling.inputs import NOT_SCHEDULED
from tidegate.schemas.authoring.arguments import aware_datetime, seconds
from tidegate.schemas.authoring.dag import Dag
from tidegate.schemas.authoring.trial import Event, RunTrial, Trial, TrialOptions
from tidegate.schemas.conditions.condition import dataset_uris, decoding_problem, patterns
from tidegate.schemas.dag import DagSpec
from tidegate.schemas.effect.run import InsertRun
from tidegate.schemas.error import DagError, did_you_mean, sentence_of
from tidegate.schemas.graph import Graph, graph_of
from tidegate.schemas.json_schema import conf_findings
from tidegate.schemas.params import conf_with_defaults
from tidegate.schemas.run import ConsumedEvent, HasUri
from tidegate.schemas.state import RunState
from tidegate.schemas.view import PendingEvent
from tidegate.schemas.wire.event import DatasetUpdated

SOURCE = "test"

NOT_SCHEDULED_IN_TEST = "the DAG is not scheduled on this dataset"

REMOTE = f"{PREFIX}SPARK_REMOTE"
WITHOUT_REMOTE = f"; start the server, or unset {REMOTE}: then Spark runs in the process of the test"


def run_dag(dag: Dag, **options: Unpack[TrialOptions]) -> Trial:
    """As `Dag.test`."""
    for name in options:
        if name not in TrialOptions.__annotations__:
            raise DagError(f"test: unknown argument {name}{did_you_mean(name, TrialOptions.__annotations__)}")
    events = [_event(event) for event in options.get("events", ())]
    graph = _graph(dag.spec(), events)
    request = _request(dag, options, has_events=bool(events))
    played: list[RunTrial] = []
    with own_session(environ.get(REMOTE, ""), WITHOUT_REMOTE) as own, TemporaryDirectory(prefix="tidegate-test-") as scratch:
        attempts = _attempts(dag, options, Path(scratch), own)

        def play(run: InsertRun, consumed: Sequence[PendingEvent]) -> RunState:
            played.append(RunOfTrial(run, graph, _consumed(consumed), scheduler.now, attempts.execute).play())
            return played[-1].state

        scheduler = Scheduler(graph, datetime.now(UTC), play)
        if request is not None:
            scheduler.request(*request)
        else:
            scheduler.deliver(events)
    discarded = tuple(_discarded(graph, event, reason) for event, reason in scheduler.discarded)
    return Trial(runs=tuple(played), discarded=discarded, waits_for=scheduler.waits_for())


def _discarded(graph: Graph, event: PendingEvent, reason: str) -> tuple[Event, str]:
    """The event and the reason. In a daemon a DAG may have been scheduled on the dataset before; here its name is misspelt."""
    names = () if graph.schedule is None else (*dataset_uris(graph.schedule), *patterns(graph.schedule))
    told = f"{NOT_SCHEDULED_IN_TEST}{did_you_mean(event.uri, names)}" if reason == NOT_SCHEDULED else reason
    return Event(event.uri, msgspec.json.decode(event.extra)), told


def _graph(spec: DagSpec, events: Sequence[Event]) -> Graph:
    """The DAG. Its events make runs of their own, unless it needs both events and time."""
    graph = graph_of(1, spec)
    return msgspec.structs.replace(graph, timetable=None) if events and not graph.requires_both else graph


def _request(dag: Dag, options: TrialOptions, *, has_events: bool) -> tuple[dict[str, Any], datetime | None] | None:
    """The conf and the date of a manual run; None if the schedule makes runs. Raises DagError."""
    where, spec = f"DAG {dag.dag_id!r}", dag.spec()
    params, logical_date = options.get("params"), options.get("logical_date")
    if params is None and logical_date is None and (spec.schedule is not None or spec.timetable is not None):
        return None
    if has_events:
        raise DagError(f"{where}: events start runs; params= and logical_date= are of a manual run: leave out one of both")
    known = spec.conf_params
    if found := conf_findings(known, conf_with_defaults(known, params or {})):
        raise DagError(f"{where}: {sentence_of(found)}")
    return dict(params or {}), aware_datetime(where, "logical_date", logical_date)


def _attempts(dag: Dag, options: TrialOptions, scratch: Path, own: LazySession) -> Attempts:
    """Raises DagError for an unknown task to replace, and a folder that is not there."""
    replace = options.get("replace") or {}
    for task_id in replace:
        if task_id not in dag.tasks:
            raise DagError(f"DAG {dag.dag_id!r}: replace: there is no task {task_id!r}{did_you_mean(task_id, dag.tasks)}")
    spark = options.get("spark")
    session = own if spark is None else spark
    folder = Path(options.get("folder") or "").absolute()
    if not folder.is_dir():
        raise DagError(f"DAG {dag.dag_id!r}: folder: {folder} does not exist")
    return Attempts(read(environ, needs=()), folder, scratch, dag.functions.__getitem__, replace, session)


def _event(event: Event | HasUri | str) -> Event:
    """Raises DagError for an event that no producer could publish, or that arrives later than ten years after the start."""
    found = event if isinstance(event, Event) else Event(event)
    seconds("events", "after", found.after)
    try:
        msgspec.json.decode(msgspec.json.encode({"uri": found.uri, "extra": found.extra}), type=DatasetUpdated)
    except (AttributeError, TypeError, ValueError) as error:
        raise DagError(f"events: {event!r:.200} is no event of a dataset: {decoding_problem(error)}") from error
    return found


def _consumed(events: Sequence[PendingEvent]) -> tuple[ConsumedEvent, ...]:
    return tuple(
        ConsumedEvent(
            uri=event.uri,
            source=SOURCE,
            id=str(event.dataset_event_id),
            occurred_at=event.occurred_at,
            extra=msgspec.json.decode(event.extra),
        )
        for event in events
    )
