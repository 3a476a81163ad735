"""The broker of a storm: each daemon comes to it by a way of its own."""

from collections.abc import Mapping
from pathlib import Path

from tests.storms.links import Link
from tidegate.daemon.standalone import port as ports
from tidegate.daemon.standalone.kafka import Kafka
from tidegate.daemon.standalone.port import LOOPBACK

SEVERAL = ("listeners", "advertised.listeners", "listener.security.protocol.map")


class Broker(Kafka):
    """Has a listener for each of these links, at which it says that its address is where the link begins.

    The links must be open when it starts.
    """

    def __init__(self, home: Path, cache: Path, links: Mapping[str, Link]) -> None:
        super().__init__(home, cache)
        self._links = links

    def _properties(self, data: Path, chosen: tuple[int, ...]) -> dict[str, str]:
        properties = super()._properties(data, chosen)
        for link, target in zip(self._links.values(), ports.choose(len(self._links)), strict=True):
            link.target = target
        for name, link in self._links.items():
            for key, more in zip(SEVERAL, _listener(name.upper(), link), strict=True):
                properties[key] += f",{more}"
        return properties


def _listener(name: str, link: Link) -> tuple[str, str, str]:
    return f"{name}://{LOOPBACK}:{link.target}", f"{name}://{LOOPBACK}:{link.port}", f"{name}:PLAINTEXT"
