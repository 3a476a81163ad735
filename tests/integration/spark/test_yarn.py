"""Applications that wait in the queue of a real YARN end with their attempts."""

import os
import signal
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import msgspec
import pytest

from tests.integration.spark.submissions import LONG_S, Bench
from tests.servers import killed_in_the_end
from tests.waiting import until
from tests.yarn import Yarn
from tidegate.daemon.spark.contract import Phase
from tidegate.daemon.spark.process import stamped
from tidegate.daemon.spark.runner.stamped_application import stamp_of
from tidegate.schemas.dag import SubmitTask

WAITING = """\
from pyspark.sql import SparkSession

SparkSession.builder.getOrCreate()
"""
NO_REST = {"spark.hadoop.yarn.resourcemanager.webapp.address": "127.0.0.1:9"}


@pytest.fixture
async def yarn(tmp_path: Path, cache: Path) -> AsyncIterator[Yarn]:
    async with killed_in_the_end(Yarn(tmp_path / "yarn", cache)) as server:
        yield server


@pytest.mark.long
@pytest.mark.skipif(not os.environ.get("TEST_LONG"), reason="needs the jars of YARN, and takes a minute: make test-long")
async def test_an_application_that_waits_in_a_queue_ends_with_its_attempt(yarn: Yarn, bench: Bench, tmp_path: Path) -> None:
    """By a kill, by the crash of its runner, by a kill of its driver; and where only the clients of Spark reach the cluster."""
    (Path(bench.settings.dags_folder) / "waiting.py").write_text(WAITING)
    there = Bench(msgspec.structs.replace(bench.settings, spark_master="yarn"))
    loopback = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_HOSTNAME": "127.0.0.1"}
    conf = {
        "spark.yarn.jars": "local:/nowhere/*",
        "spark.yarn.stagingDir": f"file://{tmp_path}/staging",
        "spark.yarn.tags": "Mine",
    }

    for how, more, phase in (
        ("kill", {}, Phase.KILLED),
        ("runner", {}, Phase.FAILED),
        ("driver", {}, Phase.FAILED),
        ("driver", NO_REST, Phase.FAILED),
    ):
        env = {"HADOOP_CONF_DIR": str(yarn.conf)}
        spec = there.spec(SubmitTask(task_id="t", application="waiting.py", env={**env, **loopback}, conf={**conf, **more}))
        handle, stamp = await there.submit(spec), stamp_of(spec.submission_id)
        await until(partial(yarn.states, stamp), LONG_S)

        if how == "kill":
            await there.backend(spec.task).kill(handle)
        for process in stamped(spec.submission_id):
            if how == "runner" or (how == "driver" and Path(f"/proc/{process.pid}/exe").readlink().name == "java"):
                os.kill(process.pid, signal.SIGKILL)

        status = await there.until_ended(spec, handle)
        assert (status.phase, "may go on" in status.reason) == (phase, False), status.reason
        assert await yarn.states(stamp) == ["KILLED"]
        assert "KILLED" in await yarn.states("mine")
