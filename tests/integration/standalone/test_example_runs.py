"""The runs that the example waits for."""

from tests.integration.cli.history import DAEMON, History
from tidegate.daemon.postgres.database import connect
from tidegate.daemon.standalone.command import example_runs

USERS = """
from tidegate import Dag, Dataset
with Dag("of_a_user", schedule=Dataset("lake://flights")) as dag: dag.command("wait", ["true"], pool="missing")
"""


async def test_the_example_does_not_wait_for_runs_of_other_dags(dsn: str) -> None:
    async with connect(dsn, writer=DAEMON) as database:
        history = History(database)
        await history.file()
        await history.file(USERS, "users.py")
        await history.run()

        found = await database.run(example_runs)

    assert [run.dag_id for run in found] == ["daily_delays"]
