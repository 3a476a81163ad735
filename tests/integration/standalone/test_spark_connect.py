"""The Spark Connect server that standalone starts."""

import sys
from pathlib import Path

import anyio
import pytest

from tidegate.daemon.standalone.process import ServerError
from tidegate.daemon.standalone.spark_connect import SparkConnect

CLIENT = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
print(*(eval(question, {"spark": spark}) for question in sys.argv[2:]), sep="\\n")
spark.stop()
"""


async def ask(url: str, *questions: str) -> list[str]:
    """Answers of a client in a process of its own."""
    answer = await anyio.run_process([sys.executable, "-W", "ignore", "-c", CLIENT, url, *questions], stderr=None)
    return answer.stdout.decode().splitlines()


async def test_it_runs_sql(spark_connect: str) -> None:
    assert await ask(spark_connect, "spark.sql('SELECT sum(id) FROM range(100)').first()[0]") == ["4950"]


async def test_it_runs_python_of_this_installation(spark_connect: str) -> None:
    interpreter = "__import__('pyspark.sql.functions').sql.functions.udf(lambda _: __import__('sys').executable)('id')"

    assert await ask(spark_connect, f"spark.range(1).select({interpreter}).first()[0]") == [sys.executable]


@pytest.mark.parametrize("setting", ["execute.manager.detachedTimeout", "session.manager.defaultSessionTimeout"])
async def test_a_query_outlasts_a_long_absence_of_its_client(spark_connect: str, setting: str) -> None:
    assert await ask(spark_connect, f"spark.conf.get('spark.connect.{setting}')") == ["12h"]


async def test_a_stopped_one_leaves_its_tables_and_nothing_temporary(tmp_path: Path) -> None:
    async with SparkConnect(tmp_path) as server:
        await ask(server.url, "spark.sql('CREATE TABLE kept USING parquet AS SELECT 42 AS answer')")

    assert list((tmp_path / "warehouse" / "kept").glob("*.parquet"))
    assert list((tmp_path / "tmp").iterdir()) == []


async def test_a_start_that_fails_shows_the_end_of_the_log(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match=r"(?s)^Spark Connect ended with exit code 1 while starting; .*Master must either be"):
        await SparkConnect(tmp_path, master="nonsense").start()
