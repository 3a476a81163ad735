"""A run that failed says which task failed, why, and where its log is; marks and clears say who did it."""

from tests.integration.cli.conftest import Cli
from tests.integration.cli.history import History
from tests.integration.cli.mapped_attempts import mapped_attempts
from tidegate.schemas.notice import LogExcerpt

LOG = LogExcerpt(host="worker-1", path="/spool/1/log", tail="reading flights\nValueError: no rows")
FAILURES = (
    "failures\n"
    "task load[1], try 1: ValueError: no rows\n"
    "  log on worker-1: /spool/1/log\n"
    "    reading flights\n"
    "    ValueError: no rows\n"
)


async def failed(cli: Cli, history: History) -> None:
    """A run with three instances of `load`, of which the second one failed."""
    attempts = list((await mapped_attempts(cli, history)).values())
    await history.attempt_ends(attempts[1], "failed", "ValueError: no rows", log=LOG)
    for attempt in (attempts[0], attempts[2]):
        await history.attempt_ends(attempt)


async def test_the_failures_of_a_run_are_shown_with_the_end_of_their_logs(cli: Cli, history: History) -> None:
    await failed(cli, history)

    shown, explained = await cli("runs", "show", "mapped", "a"), await cli("runs", "explain", "mapped", "a")

    assert FAILURES in shown.out
    assert FAILURES in explained.out
    assert ["3", "failed"] in [row[:2] for row in shown.rows]
    assert "task load[1] failed in try 1: ValueError: no rows" in shown.out


async def test_failures_are_documents_with_the_map_index_apart(cli: Cli, history: History) -> None:
    await failed(cli, history)

    page = (await cli("runs", "show", "mapped", "a", "--json")).json

    log = {"host": LOG.host, "path": LOG.path, "tail": LOG.tail}
    failure = {"task_id": "load", "map_index": 1, "try_number": 1, "reason": "ValueError: no rows", "log": log}
    assert page["failures"] == [failure]
    attempts = [attempt for task in page["tasks"] for attempt in task["attempts"] if attempt["state"] == "failed"]
    assert [(it["task_id"], it["map_index"], it["log_path"], it["log_tail"]) for it in attempts] == [
        ("load", 1, LOG.path, LOG.tail)
    ]


async def test_a_mapped_task_is_listed_with_its_reason(cli: Cli, history: History) -> None:
    await failed(cli, history)

    tasks = (await cli("tasks", "list", "mapped", "a", "--json")).json

    assert [(task["task_id"], task["map_index"], task["state"], task["reason"]) for task in tasks if task["reason"]] == [
        ("load", None, "failed", "1 of 3 instances failed: load[1] failed in try 1: ValueError: no rows"),
        ("load", 1, "failed", "ValueError: no rows"),
    ]


async def test_a_run_without_failures_has_no_such_section(cli: Cli, history: History) -> None:
    await mapped_attempts(cli, history)

    shown = await cli("runs", "show", "mapped", "a")

    assert "failures" not in shown.out


async def test_a_mark_and_a_clear_record_who_did_it(cli: Cli, history: History) -> None:
    await failed(cli, history)

    await cli("tasks", "mark", "mapped", "a", "load", "success")
    marked = (await cli("tasks", "list", "mapped", "a", "--json")).json
    await cli("runs", "clear", "mapped", "a", "--yes")
    cleared = (await cli("tasks", "list", "mapped", "a", "--json")).json

    (reason,) = [task["reason"] for task in marked if (task["task_id"], task["map_index"]) == ("load", None)]
    user = reason.removeprefix("marked by ")
    journal = (await cli("runs", "show", "mapped", "a", "--json")).json["journal"]
    assert "@" in user
    assert f"cleared because task load was marked by {user}" in [move["reason"] for move in journal]
    assert f"its mapped task was cleared by {user}" in [task["reason"] for task in cleared]
