"""What events and ends of attempts say has to arrive as it was said: of a commit, and when all is at rest."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.simulation.spark import ATTEMPT
from tests.simulation.statements import changed
from tidegate.daemon.spark.contract import Phase
from tidegate.schemas.wire.event import Kind

if TYPE_CHECKING:
    from tests.simulation.scheduler import Done
    from tests.simulation.world import World

LEDGER = """
    SELECT source, event_id, uri, dataset_event.extra::text, occurred_at
    FROM dataset_event JOIN dataset ON dataset.id = dataset_id
"""


class Content(NamedTuple):
    """What a record of an event says, or a row of the ledger."""

    uri: str
    extra: Any
    occurred_at: datetime


async def each_event_says_what_its_producer_said(world: "World") -> Iterable[str]:
    """In one of its records: copies differ in their time."""
    said: dict[tuple[str, str], list[Content]] = defaultdict(list)
    for identity, content in _sent(world):
        said[identity].append(content)
    rows = await world.server.ask(LEDGER)
    recorded = [((row[0], row[1]), Content(row[2], json.loads(row[3]), row[4])) for row in rows]
    return [
        f"{identity} is recorded as {content}, and was sent as {said[identity]}"
        for identity, content in recorded
        if identity in said and content not in said[identity]
    ]


def _sent(world: "World") -> Iterator[tuple[tuple[str, str], Content]]:
    """Read without the product's decoder."""
    for record in world.kafka.of(f"tidegate.{Kind.DATASET_UPDATED}"):
        headers, body = dict(record.headers), json.loads(record.value or b"")
        identity = (headers["ce_source"].decode(), headers["ce_id"].decode())
        yield identity, Content(body["uri"], body.get("extra"), datetime.fromisoformat(headers["ce_time"].decode()))


async def each_outlet_says_what_its_attempt_said(world: "World") -> Iterable[str]:
    told = {identity[1]: content.extra or {} for identity, content in _sent(world) if identity[0] == "tidegate"}
    return [
        f"{id_} says {told[id_]}, and not that its attempt is {application.stamp}"
        for application in world.cluster.applications.values()
        if application.phase is Phase.SUCCEEDED
        for uri in application.outlets
        if (id_ := f"{application.key}/{application.task_id}/{uri}") in told and told[id_].get(ATTEMPT) != str(application.stamp)
    ]


ENDED = "SELECT submission_id, state FROM submission WHERE submission_id = ANY ($1) AND ended_at IS NOT NULL"


async def what_has_ended_does_not_run_on(world: "World", done: "Done") -> Iterable[str]:
    """An attempt has ended when its application has. It may have ended by this commit, or before its application began."""
    looked_at, world.looked_at = world.looked_at, len(world.cluster.applications)
    if looked_at == world.looked_at and not any("submission" in changed(sql) for sql, _ in done):
        return []
    running = [application.stamp for application in world.cluster.running]
    if not running:
        return []
    return [f"{id_} is {state} and its application is running" for id_, state in await world.server.ask(ENDED, running)]
