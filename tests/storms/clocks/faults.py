"""Seeded faults: a daemon that believes its own clock. A storm that does not see them sees nothing."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from tests.storms.replace import replace
from tidegate.daemon.postgres.server_clock import ServerClock


def own_clock_believed() -> None:
    """Where no lock has to be waited for, the time of a decision is that of the host."""
    replace(ServerClock, "extrapolated", lambda _: datetime.now(UTC))


CLOCK_FAULTS: Mapping[str, Callable[[], None]] = {"own_clock_believed": own_clock_believed}
