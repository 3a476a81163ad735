"""The example of `schemas/docs/datasets.md`: a consumer whose filter reads what the producing task says.

Beside it an archive, which is replaced while a run of its former version is open.
"""

import os
from zipfile import ZipFile

from tests.acceptance.running_daemon import RunningDaemon, Start
from tests.documents import blocks
from tidegate.events import Publisher

EXAMPLE = next(block.text for block in blocks("python") if 'Dag("find_late"' in block.text)

PACKED = """
from tidegate import Dag, Dataset

with Dag("packed", schedule=Dataset("lake://flights"), mode="each") as dag:

    @dag.task
    def say(spark, run):
        from team.words import WORD  # in the run, long after the archive has been replaced

        return WORD

    dag.command("wait", ["sh", "-c", "until [ -e open ]; do sleep 0.1; done"]) >> say
"""
RUNS = "SELECT count(*) = 1 FROM dag_run WHERE dag_id = 'packed' AND state = 'running'"
SAID = """
    SELECT array_agg(value #>> '{}' ORDER BY id) = $1 FROM task_result JOIN dag_run ON id = dag_run_id WHERE dag_id = 'packed'
"""


def pack(daemon: RunningDaemon, word: str) -> None:
    """Put the archive in its place at once."""
    being_written = daemon.dags / "team.part"
    with ZipFile(being_written, "w") as archive:
        archive.writestr("packed.py", PACKED)
        archive.writestr("team/__init__.py", "")
        archive.writestr("team/words.py", f"WORD = {word!r}")
    os.replace(being_written, daemon.dags / "team.zip")


async def has_versions(daemon: RunningDaemon, count: int) -> bool:
    return await daemon.holds("SELECT count(*) = $1 FROM dag_version WHERE dag_id = 'packed'", count)


async def test_a_consumer_runs_for_the_outlet_with_rows_and_a_run_ends_with_its_archive(start: Start, spark_connect: str) -> None:
    async with start(spark_remote=spark_connect) as daemon:
        (daemon.dags / "late.py").write_text(EXAMPLE)
        pack(daemon, "former")
        await daemon.until(lambda: daemon.knows("find_late", "report_late", "packed"))
        await flights(daemon, delay=0)
        await daemon.until(lambda: daemon.has_runs(1, "find_late"))
        await daemon.until(lambda: daemon.holds(RUNS))
        pack(daemon, "new")
        await daemon.until(lambda: has_versions(daemon, 2))
        (daemon.dags / "open").touch()
        await flights(daemon, delay=12)
        await daemon.until(lambda: daemon.has_runs(1, "report_late"))
        await daemon.until(lambda: daemon.has_runs(2, "packed"))

        result = await daemon.answer("tasks", "result", "report_late", "latest", "report")
        events = await daemon.answer("datasets", "events", "lake://late")
        checked = await daemon.answer("datasets", "events", "lake://checked")

        assert await daemon.holds(SAID, ["former", "new"])

    assert result == "12 rows from find_late.find"
    outcomes = [(event["event"]["extra"]["rows"], event["outcomes"][0]["outcome"]) for event in events]
    assert outcomes == [(12, "consumed"), (0, "discarded")]
    producers = [event["event"]["producer"] for event in checked]
    assert [(producer["dag_id"], producer["task_id"]) for producer in producers] == [("find_late", "find")] * 2


async def flights(daemon: RunningDaemon, delay: int) -> None:
    async with Publisher(daemon.settings.kafka_servers, source="t", topic_prefix=daemon.settings.topic_prefix) as publisher:
        await publisher.dataset_updated("lake://flights", {"delay": delay})
