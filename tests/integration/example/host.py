"""What the tests of the example share: its DAG folder and lake, its events, and its tasks run as a daemon has them run."""

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import pyarrow as pa
from aiokafka import AIOKafkaConsumer, TopicPartition

from tidegate import ConsumedEvent
from tidegate.daemon.dagfiles.parse import open_parser
from tidegate.daemon.settings import Settings, dags_root
from tidegate.daemon.spark.contract import Phase, Status, SubmissionSpec
from tidegate.daemon.spark.runner_backend import open_backends
from tidegate.daemon.standalone.example import nycflights, pipelines
from tidegate.daemon.standalone.example.lake import deposit, partition
from tidegate.events import topics
from tidegate.schemas.dag import BACKENDS, kind_of
from tidegate.schemas.run import RunContext
from tidegate.schemas.wire.envelope import decode
from tidegate.schemas.wire.event import DatasetUpdated, Kind

ENDED = frozenset({Phase.SUCCEEDED, Phase.FAILED, Phase.KILLED})
LONG_S = 120.0
SOURCES: dict[str, Callable[[date], pa.Table]] = {"flights": nycflights.flights, "weather": nycflights.weather}


class Host:
    """A fresh installation of the example."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.dags = dags_root(settings)
        self.dags.mkdir(exist_ok=True)
        pipelines.install(self.dags.parent, self.dags)
        self.lake = self.dags.resolve().parent / "lake"

    def arrive(self, dataset: str, day: date, change: Callable[[pa.Table], pa.Table] | None = None) -> ConsumedEvent:
        """Put a file into the lake, changed if one likes; the event of it."""
        content = SOURCES[dataset](day)
        deposit(partition(self.lake, dataset, day), partial(change or _same, content))
        return event(dataset, day)

    async def execute(self, dag_id: str, task_id: str, events: Sequence[ConsumedEvent] = ()) -> tuple[Status, str]:
        """How a task of the installed files ends in a run that consumed the events, and its log."""
        spec = await self._spec(dag_id, task_id, events)
        backend = open_backends(self.settings)[BACKENDS[kind_of(spec.task)]]
        handle = await backend.submit(spec)
        await backend.confirm({spec.submission_id: None})
        with anyio.fail_after(LONG_S):
            while (status := (await backend.status({spec.submission_id: handle}))[spec.submission_id]).phase not in ENDED:
                await anyio.sleep(0.05)
            log = b""
            while not (chunk := await backend.logs(handle, len(log))).complete:
                log += chunk.content
        return status, (log + chunk.content).decode()

    async def succeed(self, dag_id: str, task_id: str, events: Sequence[ConsumedEvent] = ()) -> str:
        """The log of a task that must succeed."""
        status, log = await self.execute(dag_id, task_id, events)
        assert status.phase is Phase.SUCCEEDED, status.reason
        return log

    async def _spec(self, dag_id: str, task_id: str, events: Sequence[ConsumedEvent]) -> SubmissionSpec:
        async with open_parser(self.settings) as parser:
            parsed = await parser.parse(f"{dag_id}.py")
        assert parsed.problem is None
        (dag,) = parsed.dags
        (task,) = (task for task in dag.tasks if task.task_id == task_id)
        run = RunContext(
            dag_id=dag_id,
            run_id=f"dataset__{uuid4().hex[:8]}",
            run_type="dataset",
            run_after=datetime.now(UTC),
            params={},
            events=tuple(events),
        )
        return SubmissionSpec(submission_id=uuid4(), try_number=1, task=task, run=run, dag_path=parsed.path, source=parsed.source)


def event(dataset: str, day: date) -> ConsumedEvent:
    return ConsumedEvent(
        uri=f"lake://{dataset}",
        source="test",
        id=f"{dataset}/{day}",
        occurred_at=datetime.now(UTC),
        extra={"day": str(day)},
    )


async def published(servers: str, prefix: str) -> Sequence[ConsumedEvent]:
    """All dataset events in Kafka so far, in the order of their one partition."""
    partition = TopicPartition(topics.name(prefix, Kind.DATASET_UPDATED), 0)
    async with AIOKafkaConsumer(bootstrap_servers=servers) as consumer:
        consumer.assign([partition])
        await consumer.seek_to_beginning(partition)
        end = (await consumer.end_offsets([partition]))[partition]
        return [_consumed(await consumer.getone()) for _ in range(end)]


def _consumed(record: Any) -> ConsumedEvent:
    headers, value = record.headers, record.value
    envelope, data = decode(Kind.DATASET_UPDATED, headers, value)
    assert isinstance(data, DatasetUpdated)
    assert envelope.source is not None
    assert envelope.id is not None
    assert envelope.time is not None
    return ConsumedEvent(uri=data.uri, source=envelope.source, id=envelope.id, occurred_at=envelope.time, extra=data.extra)


def files(folder: Path) -> set[str]:
    """What a reader of the lake sees below a folder."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def _same(content: pa.Table) -> pa.Table:
    return content
