"""What missing datasets wait for in the end: the last causes up the chain of the DAGs that update them."""

from collections import deque
from collections.abc import Sequence

import msgspec

from tidegate.daemon.read_model.arrival import Arrival, read_arrivals
from tidegate.schemas.queries import dataset_pages
from tidegate.schemas.queries.dataset_pages import Rhythm
from tidegate.schemas.queries.db import Db

EXPLAINED = 10
"""The DAGs that are explained: each takes several queries."""

FOLLOWED = 30
"""The datasets that are followed."""

PRODUCERS = 100


class Cause(msgspec.Struct, frozen=True):
    """A dataset that has no event for a reason of its own, and the DAG that updates it, which waits for no other dataset.

    Without `arrival` no task updates the dataset: its events come from other programs.
    """

    uri: str
    rhythm: Rhythm
    arrival: Arrival | None


async def read_causes(db: Db, missing: Sequence[str]) -> list[Cause]:
    """The causes of missing datasets, the nearest first. A chain that is too long ends without one."""
    causes: list[Cause] = []
    left, seen, room = deque(missing), set(missing), EXPLAINED
    while left and room > 0 and len(seen) <= FOLLOWED:
        uri = left.popleft()
        arrivals = await read_arrivals(db, await dataset_pages.list_producers(db, uri, PRODUCERS), room)
        room -= len(arrivals)
        new = further(arrivals) - seen
        seen |= new
        left.extend(sorted(new))
        rhythm = (await dataset_pages.rhythms_of(db, [uri])).get(uri, Rhythm())
        causes += [Cause(uri, rhythm, arrival) for arrival in own_causes(arrivals)]
    return causes


def further(arrivals: Sequence[Arrival]) -> set[str]:
    """The datasets that DAGs without a run under way wait for."""
    return {uri for arrival in arrivals if not arrival.is_active for uri in arrival.missing}


def own_causes(arrivals: Sequence[Arrival]) -> Sequence[Arrival | None]:
    """The DAGs that wait for no dataset; None if no DAG updates it."""
    return [arrival for arrival in arrivals if arrival.is_active or not arrival.missing] if arrivals else [None]
