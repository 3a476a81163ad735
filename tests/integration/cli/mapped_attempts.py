"""Tasks that were tried, and what their runners write."""

from uuid import UUID

from tests.integration.cli.conftest import Cli
from tests.integration.cli.history import History

MAPPED = """
from tidegate import Dag
with Dag("mapped") as dag:
    load = dag.command("load", ["true"]).expand(over=dag.command("find", ["true"]))
    load >> dag.command("after", ["true"])
"""


async def mapped_attempts(cli: Cli, history: History) -> dict[str, UUID]:
    """Of three instances of `load`, which works, by their names; `after` waits for them."""
    await history.file(MAPPED)
    await cli("runs", "trigger", "mapped", "--run-id", "a")
    (found,) = await history.attempts_begin()
    await history.attempt_ends(found.submission_id, result=["x", "y", "z"])
    await history.attempts_begin()
    tasks = (await cli("tasks", "list", "mapped", "a", "--json")).json
    instances = [task for task in tasks if task["map_index"] is not None]
    return {f"{task['task_id']}[{task['map_index']}]": UUID(task["submission_id"]) for task in instances}
