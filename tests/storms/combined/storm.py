"""A storm over three brokers, with failovers of Postgres and wrong clocks, all at once."""

from typing import ClassVar

from tests.storms.brokers.storm import BrokersStorm
from tests.storms.clocks.storm import ClocksStorm
from tests.storms.failover.storm import FailoverStorm


class CombinedStorm(ClocksStorm, FailoverStorm, BrokersStorm):
    """Each adds its own: the clocks to the daemons and the verdict, the couple to Postgres, the strikes to the brokers.

    Daemons are killed faster than they take over from each other, so what is due waits for one that lives.
    """

    late_s: ClassVar[float] = 60.0
