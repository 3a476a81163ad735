"""The storage of a Kafka broker, formatted without a JVM, which takes a second of CPU time.

`keep` takes the one file that is the same for all brokers of a version from a storage that Kafka has formatted.
"""

import shutil
from pathlib import Path

from tests.kept import keeping
from tests.storms.replace import put
from tidegate.daemon.standalone.kafka import Kafka, new_cluster

CHECKPOINT = "bootstrap.checkpoint"
FORMAT = Kafka._format
"""As the product does it."""


def of(cache: Path) -> Path:
    return cache / f"kafka-{CHECKPOINT}"


def keep(data: Path, cache: Path) -> None:
    with keeping(of(cache)) as unfinished:
        shutil.copyfile(data / CHECKPOINT, unfinished)


def use(cache: Path) -> None:
    """Let every Kafka of this process begin with such a storage, if a checkpoint was kept."""
    if of(cache).exists():
        put(Kafka, "_format", _format)


async def _format(server: Kafka) -> None:
    unfinished = server.home / "data.unfinished"
    unfinished.mkdir()
    shutil.copyfile(of(server._cache), unfinished / CHECKPOINT)
    properties = {"version": 1, "node.id": server.node, "cluster.id": server._cluster(), "directory.id": new_cluster()}
    (unfinished / "meta.properties").write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    unfinished.rename(server._data)
