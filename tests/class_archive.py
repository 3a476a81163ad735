"""An archive of the classes that Kafka loads, with which a broker starts in half of the CPU time.

`python -m tests.class_archive` makes it. A JVM ignores the archive of another version, or of other jars.
"""

import os
import sys
import tempfile
from pathlib import Path

import anyio
from aiokafka import AIOKafkaProducer

from tests import formatted_storage, initialized_cluster
from tests.kept import keeping, require_writable
from tests.servers import CHEAP_JAVA
from tests.storms.replace import put
from tidegate.daemon.standalone import kafka
from tidegate.daemon.standalone.jars import cache_of
from tidegate.daemon.standalone.kafka import Kafka
from tidegate.daemon.standalone.process import ServerError
from tidegate.events import topics
from tidegate.schemas.wire.event import Kind

PREFIX = "archive."


def of(cache: Path) -> Path:
    return cache / "kafka.jsa"


def use(cache: Path) -> None:
    """Let every Kafka of this process load it, if there is one."""
    if of(cache).exists():
        put(kafka, "JVM", (*kafka.JVM, f"-XX:SharedArchiveFile={of(cache)}"))


async def make(cache: Path) -> None:
    """Start a broker, send it a record, and have it write the archive when it ends; keep the storage of each kind of server.

    Raises ServerError if the cache is not writable, or a server cannot be started.
    """
    require_writable(cache)
    await initialized_cluster.keep(cache)
    os.environ.update(CHEAP_JAVA)
    with keeping(of(cache)) as unfinished, tempfile.TemporaryDirectory() as home:
        put(kafka, "JVM", (*kafka.JVM, f"-XX:ArchiveClassesAtExit={unfinished}"))
        async with Kafka(Path(home), cache) as server:
            formatted_storage.keep(server.home / "data", cache)
            await topics.create(server.bootstrap, PREFIX, 1, 1)
            async with AIOKafkaProducer(bootstrap_servers=server.bootstrap) as producer:
                await producer.send_and_wait(topics.name(PREFIX, Kind.DATASET_UPDATED), b"{}")


if __name__ == "__main__":
    try:
        anyio.run(make, cache_of(os.environ))
    except ServerError as error:
        sys.exit(f"error: {error}")
