"""The example of `schemas/docs/datasets.md`: a consumer whose filter reads what the producing task says."""

from tests.acceptance.running_daemon import RunningDaemon, Start
from tests.documents import blocks
from tidegate.events import Publisher

EXAMPLE = next(block.text for block in blocks("python") if 'Dag("find_late"' in block.text)


async def test_a_consumer_runs_for_the_outlet_that_has_rows_and_for_no_other(start: Start, spark_connect: str) -> None:
    async with start(spark_remote=spark_connect) as daemon:
        (daemon.dags / "late.py").write_text(EXAMPLE)
        await daemon.until(lambda: daemon.knows("find_late", "report_late"))
        await flights(daemon, delay=0)
        await daemon.until(lambda: daemon.has_runs(1, "find_late"))
        await flights(daemon, delay=12)
        await daemon.until(lambda: daemon.has_runs(1, "report_late"))

        result = await daemon.answer("tasks", "result", "report_late", "latest", "report")
        events = await daemon.answer("datasets", "events", "lake://late")
        checked = await daemon.answer("datasets", "events", "lake://checked")

    assert result == "12 rows from find_late.find"
    outcomes = [(event["event"]["extra"]["rows"], event["outcomes"][0]["outcome"]) for event in events]
    assert outcomes == [(12, "consumed"), (0, "discarded")]
    producers = [event["event"]["producer"] for event in checked]
    assert [(producer["dag_id"], producer["task_id"]) for producer in producers] == [("find_late", "find")] * 2


async def flights(daemon: RunningDaemon, delay: int) -> None:
    async with Publisher(daemon.settings.kafka_servers, source="t", topic_prefix=daemon.settings.topic_prefix) as publisher:
        await publisher.dataset_updated("lake://flights", {"delay": delay})
