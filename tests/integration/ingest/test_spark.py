"""A real Spark job: what OpenLineage's listener tells of its writes, and what its driver publishes itself."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import anyio

from tests.integration.ingest.intake import Intake, Sent
from tidegate.daemon.lineage import AFTER_FAILURE
from tidegate.daemon.standalone import jars
from tidegate.schemas.wire.event import Kind

JOB = Path(__file__).with_name("lineage_job.py")
LOCK = Path(__file__).parents[2] / "spark" / "openlineage.lock"
SUBMIT = str(Path(sys.executable).with_name("spark-submit"))
LISTENER = "io.openlineage.spark.agent.OpenLineageSparkListener"
STRINGS = "org.apache.kafka.common.serialization.StringSerializer"

FACTS = """
SELECT uri, source, event.extra ->> 'row_count' AS row_count, event.extra ->> 'rows' AS rows, event.extra ->> 'job' AS job
FROM dataset_event AS event JOIN dataset ON dataset.id = dataset_id ORDER BY event.id
"""


def command(intake: Intake, class_path: Sequence[Path], home: Path) -> list[str]:
    conf = {
        "spark.extraListeners": LISTENER,
        "spark.openlineage.namespace": "flights",
        "spark.openlineage.transport.type": "kafka",
        "spark.openlineage.transport.topicName": intake.settings.topic(Kind.DATASET_UPDATED),
        "spark.openlineage.transport.properties.bootstrap.servers": intake.settings.kafka_servers,
        "spark.openlineage.transport.properties.key.serializer": STRINGS,
        "spark.openlineage.transport.properties.value.serializer": STRINGS,
        "spark.local.dir": str(home),
        "spark.ui.enabled": "false",
    }
    options = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    submit = [SUBMIT, "--master", "local[1]", "--name", "lineage_job", "--jars", ",".join(map(str, class_path)), *options]
    return [*submit, str(JOB), str(home / "out"), intake.settings.kafka_servers, intake.settings.topic_prefix]


async def test_what_a_spark_job_wrote_was_updated_and_what_failed_was_not(intake: Intake, cache: Path, tmp_path: Path) -> None:
    clients = [jar for jar in jars.locked() if jar.artifact == "kafka-clients"]
    class_path = await anyio.to_thread.run_sync(jars.resolve, cache, [*jars.parse(LOCK.read_text()), *clients])

    ended = await anyio.run_process(
        command(intake, class_path, tmp_path),
        cwd=tmp_path,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        stderr=subprocess.STDOUT,
        check=False,
    )
    await intake.take(Kind.DATASET_UPDATED, Sent(b'{"uri": "lake://last"}'))

    assert ended.returncode == 0, ended.stdout.decode()[-4000:]
    numbers, prefix = f"file://{tmp_path}/out/numbers", "flights/lineage_job."
    facts = [(row["uri"], row["source"], row["row_count"], row["rows"]) for row in await intake.rows(FACTS)]
    assert facts[:-1] == [
        (numbers, "openlineage", "10", None),
        (numbers, "openlineage", "25", None),
        ("lake://numbers", "lineage-job", None, "25"),
    ]
    assert all(row["job"].startswith(prefix) for row in (await intake.rows(FACTS))[:2])
    keys = {record.key for record in await intake.published(Kind.DATASET_UPDATED)}
    assert keys == {b"run:flights/lineage_job", b"lake://numbers", None}, "a run's events are in one partition, in their order"
    assert await intake.letters() == []
    ignored = {row["what"]: row["records"] for row in await intake.rows("SELECT what, records FROM ignored_record")}
    assert ignored.keys() == {"START", "RUNNING", "FAIL", "COMPLETE", AFTER_FAILURE}
    assert (ignored["FAIL"], ignored[AFTER_FAILURE]) == (1, 1)
