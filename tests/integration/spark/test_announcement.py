"""How the news of an outcome travels: through Kafka, and through the spool when Kafka is away."""

import json
import socket

import anyio
import msgspec
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.structs import ConsumerRecord
from msgspec import UNSET

from tests.integration.spark.submissions import LONG_S, Bench, task, until_nothing_runs
from tidegate.daemon.settings import Settings
from tidegate.daemon.spark.contract import Phase
from tidegate.schemas.notice import LogExcerpt
from tidegate.schemas.wire.envelope import Envelope, decode
from tidegate.schemas.wire.event import Kind, TaskFinished


async def test_the_runner_publishes_the_outcome_under_the_id_of_the_submission(bench: Bench) -> None:
    spec = bench.spec(task("command", "fail"))

    status = await bench.until_ended(spec, await bench.submit(spec))
    record = await told_of(bench.settings, str(spec.submission_id))
    envelope, event = decode(Kind.TASK_FINISHED, record.headers, record.value)

    assert record.key == f"contract/{spec.run.run_id}".encode()
    assert envelope == Envelope(source="tidegate/submission", id=str(spec.submission_id), time=envelope.time)
    assert event == TaskFinished(
        submission_id=spec.submission_id,
        token=spec.token,
        outcome="failed",
        reason=status.reason,
        exit_code=1,
        started_at=status.started_at,
        finished_at=status.finished_at,
        log=status.log or UNSET,
    )
    assert isinstance(event.log, LogExcerpt)
    assert event.log.host == bench.settings.host
    assert event.log.tail.endswith("ValueError: no flights on this day")


async def test_with_kafka_away_the_outcome_is_in_the_spool_and_the_runner_goes(bench: Bench) -> None:
    """Kafka does not answer."""
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        away = Bench(msgspec.structs.replace(bench.settings, kafka_servers=f"127.0.0.1:{deaf.getsockname()[1]}"))
        spec = away.spec(task("command", "succeed"))

        handle = await away.submit(spec)
        status = await away.until_ended(spec, handle)
        await until_nothing_runs(spec.submission_id)
        deaf.setblocking(False)  # noqa: FBT003 - it takes no keyword
        deaf.accept()[0].close()  # The runner has asked it.

    assert status.phase is Phase.SUCCEEDED
    assert (await away.status(spec, handle)).phase is Phase.SUCCEEDED


async def told_of(settings: Settings, submission_id: str) -> ConsumerRecord:
    """The record about a submission, as any consumer would get it."""
    consumer = AIOKafkaConsumer(bootstrap_servers=settings.kafka_servers)
    await consumer.start()
    try:
        partition = TopicPartition(settings.topic(Kind.TASK_FINISHED), 0)
        consumer.assign([partition])
        await consumer.seek_to_beginning(partition)
        with anyio.fail_after(LONG_S):
            while True:
                record = await consumer.getone()
                if json.loads(record.value)["submission_id"] == submission_id:
                    return record
    finally:
        await consumer.stop()
