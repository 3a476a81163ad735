"""A run of three tasks that failed."""

from tests.integration.cli.conftest import Cli
from tests.integration.cli.history import History

THREE = """
from tidegate import Dag
with Dag("three") as dag:
    dag.command("first", ["true"]) >> dag.command("second", ["true"]) >> dag.command("third", ["true"])
"""


async def failed(history: History, cli: Cli, run_id: str = "a") -> None:
    """A run whose second task failed."""
    await history.file(THREE)
    await cli("runs", "trigger", "three", "--run-id", run_id)
    for outcome in ("succeeded", "failed"):
        (attempt,) = await history.attempts_begin()
        await history.attempt_ends(attempt.submission_id, "succeeded" if outcome == "succeeded" else "failed", "boom")


async def states(cli: Cli, dag_id: str = "three", run_id: str = "a") -> dict[str, str]:
    return {task["task_id"]: task["state"] for task in (await cli("tasks", "list", dag_id, run_id, "--json")).json}
