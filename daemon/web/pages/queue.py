"""The pools, and the queue of one: which tasks have slots, which get them next, and why the others wait.

The name of a pool may have slashes, so it is a parameter of the query.
"""

from tidegate.daemon import pools as changes
from tidegate.daemon.api.pools import PoolPath, QueuePath, SlotCount, check_name, list_queue
from tidegate.daemon.gateway.endpoint import Call, Params, Read
from tidegate.daemon.permissions import Right
from tidegate.daemon.read_model.queue import PoolQueue, Pools, read_pools
from tidegate.daemon.web.form import Field, Preview
from tidegate.daemon.web.rendering import url
from tidegate.daemon.web.screen import Form, Screen
from tidegate.schemas.effect.audit import OF_POOL
from tidegate.schemas.queries import pools
from tidegate.schemas.queries.counting import COUNTED, tasks_wait
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.pools import PoolRow
from tidegate.schemas.text import counted


class PoolName(Params, frozen=True):
    """A pool by its name, which is checked after the right of the caller."""

    name: str = ""


class SlotsBody(PoolPath, frozen=True):
    """A pool with its slots, and the slots that the form showed. `is_new`: it showed that the pool did not exist."""

    slots: SlotCount
    shown: SlotCount | None = None
    is_new: bool = False


async def read_all(db: Db, _call: Call[Params]) -> Pools:
    return await read_pools(db)


async def preview_slots(db: Db, call: Call[PoolName]) -> Preview:
    name = call.params.name
    check_name(name)
    pool = next(iter(await pools.list_pools(db, name, COUNTED)), None)
    return Preview(
        title=f"Slots of the pool {name}",
        says=[_taken(pool), "Active tasks continue, also if they take more slots than the pool then has."],
        back=url("queue", "pool", name=name) if pool else url("queue"),
        button="Set the slots" if pool else "Create the pool",
        fields=[
            Field(name="name", label="", kind="hidden", value=name),
            _shown(pool),
            Field(name="slots", label="Slots", value=str(pool.slots) if pool else "", hint="-1 is no limit", is_required=True),
        ],
    )


def _taken(pool: PoolRow | None) -> str:
    if pool is None:
        return "The pool does not exist yet."
    return f"{counted(pool.running + pool.queued, 'slot is taken', 'slots are taken')}, {tasks_wait(pool.waiting_tasks)}."


def _shown(pool: PoolRow | None) -> Field:
    name, value = ("shown", str(pool.slots)) if pool else ("is_new", "true")
    return Field(name=name, label="", kind="hidden", value=value)


async def set_slots(call: Call[Params], body: SlotsBody) -> str:
    check_name(body.name)
    expected = changes.Absent.ABSENT if body.is_new else body.shown
    await changes.set_slots(call.database, call.caller.username, body.name, body.slots, expected=expected)
    return url("queue", "pool", name=body.name)


LIST = Screen(Read("/queue", Right.VIEW, read_all, Params, Pools), "queue.html")
SLOTS = Read("/queue/slots", Right.OPERATE, preview_slots, PoolName, Preview)
FORM = Form.of(SLOTS, set_slots, Params, SlotsBody, does="changed a pool", about=OF_POOL, keeps_texts=True)
ONE = Screen(Read("/queue/pool", Right.VIEW, list_queue, QueuePath, PoolQueue), "pool.html")
