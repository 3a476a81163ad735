"""The Spark Connect server that standalone starts."""

import sys
from collections.abc import Mapping
from pathlib import Path

import anyio
import pytest
from anyio.from_thread import BlockingPortal

from tests.integration.standalone.family import assert_kept_to_itself, family_of, listening_of
from tidegate.daemon.standalone.process import ServerError
from tidegate.daemon.standalone.spark_connect import SparkConnect

CLIENT = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
print(*(eval(question, {"spark": spark}) for question in sys.argv[2:]), sep="\\n")
spark.stop()
"""


INTERPRETER = "__import__('pyspark.sql.functions').sql.functions.udf(lambda _: __import__('sys').executable)('id')"

QUESTIONS: Mapping[str, str] = {
    "sql": "spark.sql('SELECT sum(id) FROM range(100)').first()[0]",
    "python": f"spark.range(1).select({INTERPRETER}).first()[0]",
    "detached": "spark.conf.get('spark.connect.execute.manager.detachedTimeout')",
    "idle": "spark.conf.get('spark.connect.session.manager.defaultSessionTimeout')",
}


async def ask(url: str, *questions: str) -> list[str]:
    """Answers of a client in a process of its own."""
    answer = await anyio.run_process([sys.executable, "-W", "ignore", "-c", CLIENT, url, *questions], stderr=None)
    return answer.stdout.decode().splitlines()


@pytest.fixture(scope="module")
def answers(portal: BlockingPortal, spark_connect: str) -> Mapping[str, str]:
    """To all questions, from one client: its start takes longer than they do."""
    return dict(zip(QUESTIONS, portal.call(ask, spark_connect, *QUESTIONS.values()), strict=True))


def test_it_runs_sql(answers: Mapping[str, str]) -> None:
    assert answers["sql"] == "4950"


def test_it_runs_python_of_this_installation(answers: Mapping[str, str]) -> None:
    assert answers["python"] == sys.executable


@pytest.mark.parametrize("timeout", ["detached", "idle"])
def test_a_query_outlasts_a_long_absence_of_its_client(answers: Mapping[str, str], timeout: str) -> None:
    assert answers[timeout] == "12h"


async def test_a_stopped_one_leaves_its_tables_and_nothing_temporary(tmp_path: Path) -> None:
    """It also keeps what every server promises: a start of its own for that would take seconds."""
    async with SparkConnect(tmp_path) as server:
        await ask(server.url, "spark.sql('CREATE TABLE kept USING parquet AS SELECT 42 AS answer')")
        family, listening = family_of(server), listening_of(server)

    assert list((tmp_path / "warehouse" / "kept").glob("*.parquet"))
    assert list((tmp_path / "tmp").iterdir()) == []
    assert_kept_to_itself(server, family, listening)


async def test_a_start_that_fails_shows_the_end_of_the_log(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match=r"(?s)^Spark Connect ended with exit code 1 while starting; .*Master must either be"):
        await SparkConnect(tmp_path, master="nonsense").start()
