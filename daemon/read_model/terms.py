"""The settings by which daemons decide, for pages that say what they will decide."""

from collections.abc import Sequence

from tidegate.daemon.settings import Settings
from tidegate.schemas.queries.leases import JobRow, Terms


def own_terms(settings: Settings) -> Terms:
    """The terms of this process, which stand for those of the daemons while none is alive."""
    return Terms(settings.parallelism, settings.fair_after_s, settings.lease_ttl_s)


def terms_of(daemons: Sequence[JobRow], settings: Settings) -> Terms:
    """The terms of the live daemons."""
    return daemons[0].terms if daemons else own_terms(settings)
