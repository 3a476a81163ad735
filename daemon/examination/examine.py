"""Asks all servers side by side, each in bounded time.

Slow to import: a Kafka client.
"""

from collections.abc import Sequence

import anyio
import msgspec

from tidegate.daemon.examination import spark, topics
from tidegate.daemon.read_model.system import System, verdict
from tidegate.daemon.settings import Settings
from tidegate.events.inspection import inspect
from tidegate.schemas.error import TidegateError
from tidegate.schemas.queries.system_pages import SparkNeed
from tidegate.schemas.wire.event import Kind

TIMEOUT_S = 4.0
"""The time for the answer of each server."""


class Findings(msgspec.Struct):
    """What is wrong, each with what to do, and what could not be looked at."""

    problems: list[str] = []
    unexamined: list[str] = []


async def examine(system: System, needs: Sequence[SparkNeed], settings: Settings) -> Findings:
    """What Kafka and Spark say to this host."""
    of_kafka, of_spark = Findings(), Findings()
    async with anyio.create_task_group() as tg:
        tg.start_soon(_ask_kafka, system, settings, of_kafka)
        for server in spark.servers(needs, settings):
            tg.start_soon(_ask_spark, server, of_spark)
    return Findings(of_kafka.problems + sorted(of_spark.problems), of_kafka.unexamined)


def with_problems(system: System, more: Sequence[str]) -> System:
    """The installation with further problems."""
    found = [*system.problems, *more]
    return msgspec.structs.replace(system, problems=found, verdict=verdict(system, len(found)))


async def _ask_kafka(system: System, settings: Settings, findings: Findings) -> None:
    if not settings.kafka_servers:
        findings.unexamined.append("Kafka, because TIDEGATE_KAFKA_SERVERS is not set here")
        return
    try:
        found = await inspect(
            settings.kafka_servers,
            [settings.topic(kind) for kind in Kind],
            group=topics.group_of(settings),
            transactional_id=topics.transactional_id_of(settings),
            security=settings.kafka_security,
            timeout_s=TIMEOUT_S,
        )
    except TidegateError as error:
        findings.problems.append(str(error))
        return
    findings.problems.extend(topics.problems(found, topics.expected(system, settings)))
    if unread := topics.unread_configurations(found):
        findings.unexamined.append(f"the configuration of {', '.join(unread)}, which needs the right DescribeConfigs")


async def _ask_spark(server: spark.Server, findings: Findings) -> None:
    if (problem := await spark.problem_of(server, TIMEOUT_S)) is not None:
        findings.problems.append(problem)
