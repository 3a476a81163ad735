"""A storm over three brokers: every record has three copies, two of which must be written before it counts."""

from pathlib import Path
from typing import ClassVar

import anyio

from tests.quorum import Quorum
from tests.storms.brokers.nemesis import BrokerNemesis
from tests.storms.checker import Verdict
from tests.storms.nemesis import Nemesis
from tests.storms.settings import PREFIX
from tests.storms.storm import Storm


class BrokersStorm(Storm):
    """`moves` counts changes of leaders."""

    replication: ClassVar[int] = 3
    moves = 0

    def _open_kafka(self, cache: Path) -> Quorum:
        return Quorum(self.home / "kafka", cache)

    async def _strike(self, nemesis: Nemesis) -> None:
        assert isinstance(self.kafka, Quorum)
        over_brokers = BrokerNemesis(self.random, self.kafka, PREFIX, nemesis.note)
        async with anyio.create_task_group() as tg:
            tg.start_soon(nemesis.rage, self.plan.misery)
            tg.start_soon(over_brokers.rage, self.plan.strikes)
        self.moves = over_brokers.moves

    def report(self, verdict: Verdict) -> str:
        return f"{super().report(verdict)}\n{self.moves:7} partitions had another leader after a strike"
