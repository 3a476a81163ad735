"""The installation: daemons, halted partitions, ignored records, and lost commits."""

from typing import Annotated
from uuid import UUID

from msgspec import Meta

from tidegate.daemon.api.dead_letters import WithReason
from tidegate.daemon.gateway.cursor import Page
from tidegate.daemon.gateway.endpoint import Act, Call, Load, Params, Read
from tidegate.daemon.gateway.lists import Id, Keyset, Listed, Time, newest_first
from tidegate.daemon.intake import lag, resumption
from tidegate.daemon.intake.lag import PartitionRow
from tidegate.daemon.intake.resumption import NO_KAFKA, BackwardsError, Resumed
from tidegate.daemon.intake.stepping_over import SteppedOver, step_over
from tidegate.daemon.permissions import Right
from tidegate.daemon.read_model.system import System, read_system
from tidegate.schemas.effect.audit import OF_LOSS, OF_PARTITION
from tidegate.schemas.error import RequestError
from tidegate.schemas.queries import inbox, leases, losses, system_pages
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.inbox import IgnoredRow
from tidegate.schemas.queries.leases import Incident
from tidegate.schemas.queries.losses import LossRow
from tidegate.schemas.queries.system_pages import DaemonLine

NEWEST = newest_first("losses")
OLDEST = Keyset("daemons", ("started_at", "id"), (Time, UUID))
BY_PARTITION = Keyset("halted partitions", ("partition",), (str,))
READ = Keyset("partitions", ("partition",), (str,))
BY_KIND = Keyset("ignored records", ("topic", "what"), (str, str))


class LossList(Listed, frozen=True):
    """The losses, open or all."""

    settled: Annotated[bool, Meta(description="Also settled ones.")] = False


class Resume(Params, frozen=True):
    """A halted partition and the offset to continue at: `earliest`, `latest`, or a number.

    `new_topic`, which an earlier offset needs: whether the topic was created again, or lost its end.
    """

    partition: str
    at: str
    new_topic: bool | None = None


class Skip(WithReason, frozen=True):
    """The record that a partition waits with, and why it is stepped over."""

    partition: str
    offset: Annotated[int, Meta(ge=0, le=2**63 - 1)]


class LossPath(Params, frozen=True):
    """A loss by its number."""

    id: Annotated[Id, Meta(description="The number of the loss.")]


class Settle(WithReason, frozen=True):
    """What was done about a loss."""


async def list_daemons(db: Db, call: Call[Listed]) -> Page[DaemonLine]:
    """List the daemons that are alive, oldest first, the leases of each, and the servers that it cannot reach."""
    params = call.params
    return OLDEST.page(await system_pages.daemons(db, after=OLDEST.position(params), limit=params.limit + 1), params)


async def show_system(db: Db, _call: Call[Params]) -> System:
    """Show the installation, and what is wrong with it: daemons, leases, the relay, the schema and the tables."""
    return await read_system(db)


async def list_halted(db: Db, call: Call[Listed]) -> Page[Incident]:
    """List halted partitions: their next offset is outside their log, or the records there cannot be decoded."""
    params = call.params
    found = await leases.incidents(db, after=BY_PARTITION.first(params), limit=params.limit + 1)
    return BY_PARTITION.page(found, params)


async def list_partitions(call: Call[Listed]) -> Page[PartitionRow]:
    """List the partitions that daemons read: the daemon of each, its next offset, the range of its log, and its lag."""
    params = call.params
    if not call.settings.kafka_servers:
        raise RequestError(NO_KAFKA)
    after, limit = READ.first(params), params.limit + 1
    found = await lag.list_partitions(call.service.reader, call.service.log_ranges.of, after=after, limit=limit)
    return READ.page(found, params)


async def resume_partition(call: Call[Params], body: Resume) -> Resumed:
    """Continue a halted partition at another offset."""
    database = call.database
    halted = await resumption.find_halted(database, call.settings, body.partition)
    try:
        user, within_s = call.caller.username, resumption.REQUEST_S
        return await resumption.resume(database, user, halted, body.at, is_new=body.new_topic, within_s=within_s)
    except BackwardsError as error:
        raise RequestError(f"{error} (send `new_topic=true` or `new_topic=false`)") from error


async def skip_record(call: Call[Params], body: Skip) -> SteppedOver:
    """Make a record that is too slow for Postgres a dead letter, so that its partition goes on behind it."""
    user, database = call.caller.username, call.database
    return await step_over(database, call.settings, user, body.partition, body.offset, body.because)


async def list_ignored(db: Db, call: Call[Listed]) -> Page[IgnoredRow]:
    """Count the records that were ignored because they announce no new data, by topic and kind."""
    params = call.params
    return BY_KIND.page(await inbox.ignored(db, after=BY_KIND.position(params), limit=params.limit + 1), params)


async def list_losses(db: Db, call: Call[LossList]) -> Page[LossRow]:
    """List acknowledged commits that Postgres has lost, newest first."""
    params = call.params
    found = await losses.list_losses(db, settled=params.settled, before=NEWEST.first(params), limit=params.limit + 1)
    return NEWEST.page(found, params)


async def settle_loss(call: Call[LossPath], body: Settle) -> LossRow:
    """Mark a loss as dealt with."""
    return await call.database.run(losses.settle, call.params.id, call.caller.username, body.because)


ENDPOINTS = (
    Read("/system", Right.VIEW, show_system, Params, System),
    Read("/daemons", Right.VIEW, list_daemons, Listed, Page[DaemonLine]),
    Read("/topics/halted", Right.VIEW, list_halted, Listed, Page[Incident]),
    Act(
        "POST",
        "/topics/resume",
        Right.OPERATE,
        resume_partition,
        Params,
        Resume,
        Resumed,
        does="resumed a partition",
        about=OF_PARTITION,
    ),
    Act(
        "POST",
        "/topics/skip",
        Right.OPERATE,
        skip_record,
        Params,
        Skip,
        SteppedOver,
        does="stepped over a record",
        about=OF_PARTITION,
    ),
    Load("/topics/partitions", Right.VIEW, list_partitions, Listed, Page[PartitionRow]),
    Read("/topics/ignored", Right.VIEW, list_ignored, Listed, Page[IgnoredRow]),
    Read("/losses", Right.VIEW, list_losses, LossList, Page[LossRow]),
    Act(
        "POST",
        "/losses/{id}/settle",
        Right.OPERATE,
        settle_loss,
        LossPath,
        Settle,
        LossRow,
        does="settled a loss of commits",
        about=OF_LOSS,
    ),
)
