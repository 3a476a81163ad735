"""The settings by which daemons decide, and what the next admission decides by them, for pages that say it."""

from collections.abc import Mapping, Sequence

from tidegate.daemon.settings import Settings
from tidegate.handlers.admission.load import preview_admission
from tidegate.handlers.explain.queue import queue_blockers
from tidegate.schemas.explain.reasons import AdmissionBlocker
from tidegate.schemas.message import TasksReady
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.leases import JobRow, Terms
from tidegate.schemas.view import TaskKey


def own_terms(settings: Settings) -> Terms:
    """The terms of this process, which stand for those of the daemons while none is alive."""
    return Terms(settings.parallelism, settings.fair_after_s, settings.lease_ttl_s)


def terms_of(daemons: Sequence[JobRow], settings: Settings) -> Terms:
    """The terms of the live daemons."""
    return daemons[0].terms if daemons else own_terms(settings)


async def admission_blockers(
    db: Db, pool: str, keys: Sequence[TaskKey], terms: Terms
) -> Mapping[TaskKey, Sequence[AdmissionBlocker] | None]:
    """By task of the queue of a pool, what keeps it from slots; None: the next admission gives it its slots."""
    ready = TasksReady(pool=pool, limit=len(keys), parallelism=terms.parallelism, fair_after_s=terms.fair_after_s)
    return queue_blockers(await preview_admission(db, ready, keys))
