"""The installation: daemons, halted partitions, ignored records, and lost commits."""

from uuid import UUID

from tidegate.daemon.api.dead_letters import check_because
from tidegate.daemon.gateway.cursor import Page
from tidegate.daemon.gateway.endpoint import Act, Call, Params, Read
from tidegate.daemon.gateway.lists import Id, Keyset, Listed, Time, newest_first
from tidegate.daemon.permissions import Right
from tidegate.daemon.read_model.system import System, read_system
from tidegate.schemas.error import NotFoundError
from tidegate.schemas.queries import inbox, leases, losses
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.inbox import IgnoredRow
from tidegate.schemas.queries.leases import Incident, JobRow
from tidegate.schemas.queries.losses import LossRow

NEWEST = newest_first("losses")
OLDEST = Keyset("daemons", ("started_at", "id"), (Time, UUID))
BY_PARTITION = Keyset("halted partitions", ("partition",), (str,))
BY_KIND = Keyset("ignored records", ("topic", "what"), (str, str))


class LossList(Listed, frozen=True):
    """`settled`: also settled ones."""

    settled: bool = False


class LossPath(Params, frozen=True):
    """A loss by its number."""

    id: Id


class Settle(Params, frozen=True):
    """What was done about a loss."""

    because: str

    def __post_init__(self) -> None:
        super().__post_init__()
        check_because(self.because)


async def list_daemons(db: Db, call: Call[Listed]) -> Page[JobRow]:
    """List the daemons that are alive, oldest first, and the servers that each cannot reach."""
    wanted = call.params
    return OLDEST.page(await leases.live(db, after=OLDEST.position(wanted), limit=wanted.limit + 1), wanted)


async def show_system(db: Db, _call: Call[Params]) -> System:
    """Show the installation, and what is wrong with it: daemons, duties, the relay, the schema and the tables."""
    return await read_system(db)


async def list_halted(db: Db, call: Call[Listed]) -> Page[Incident]:
    """List halted partitions: their next offset is outside their log."""
    wanted = call.params
    found = await leases.incidents(db, after=BY_PARTITION.first(wanted), limit=wanted.limit + 1)
    return BY_PARTITION.page(found, wanted)


async def list_ignored(db: Db, call: Call[Listed]) -> Page[IgnoredRow]:
    """Count the records that were ignored because they announce no new data, by topic and kind."""
    wanted = call.params
    return BY_KIND.page(await inbox.ignored(db, after=BY_KIND.position(wanted), limit=wanted.limit + 1), wanted)


async def list_losses(db: Db, call: Call[LossList]) -> Page[LossRow]:
    """List acknowledged commits that Postgres has lost, newest first."""
    wanted = call.params
    found = await losses.list_losses(db, settled=wanted.settled, before=NEWEST.first(wanted), limit=wanted.limit + 1)
    return NEWEST.page(found, wanted)


async def settle_loss(call: Call[LossPath], body: Settle) -> LossRow:
    """Mark a loss as dealt with."""
    id_ = call.params.id
    if not await call.database.run(losses.settle, id_, call.caller.username, body.because):
        raise NotFoundError(f"there is no open loss {id_}; `tidegate losses list --all` shows all")
    return (await call.database.run(losses.list_losses, settled=True, before=id_ + 1, limit=1))[0]


ENDPOINTS = (
    Read("/system", Right.VIEW, show_system, Params, System),
    Read("/daemons", Right.VIEW, list_daemons, Listed, Page[JobRow]),
    Read("/topics/halted", Right.VIEW, list_halted, Listed, Page[Incident]),
    Read("/topics/ignored", Right.VIEW, list_ignored, Listed, Page[IgnoredRow]),
    Read("/losses", Right.VIEW, list_losses, LossList, Page[LossRow]),
    Act("POST", "/losses/{id}/settle", Right.OPERATE, settle_loss, LossPath, Settle, LossRow),
)
