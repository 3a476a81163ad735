"""`tidegate deadlines` and `tidegate notifications`, and both in `runs show`."""

from pathlib import Path
from uuid import UUID

import anyio
import pytest

from tests.integration.cli.conftest import Cli
from tests.integration.cli.history import History
from tidegate.daemon.duties.receivers.function import submission_id
from tidegate.daemon.spark.spool import Spool
from tidegate.schemas.message import DeadlineDue

FILE = """
from datetime import timedelta
from tidegate import Dag, Dataset, Deadline, Email, Webhook

def tell(context):
    pass

SOON = [Deadline("soon", after=timedelta(milliseconds=1), since="queued_at")]
with Dag("watched", schedule=Dataset("s://a"), deadlines=[Deadline("later", after=timedelta(hours=1))],
         on_failure=[tell, Webhook("https://hooks.example.org/T0/secret")]) as dag:
    dag.command("load", ["false"], deadlines=SOON, on_deadline=Email("ops@example.org"))
"""


@pytest.fixture
async def watched(history: History) -> History:
    """A run of `watched` whose task has missed its deadline and failed."""
    await history.file(FILE, "watched.py")
    await history.updated("s://a")
    (attempt,) = await history.attempts_begin()
    await anyio.sleep(0.01)
    for row in await history.database.pool.fetch("SELECT id FROM deadline"):
        await history._apply(DeadlineDue(deadline_id=row[0]))
    await history.attempt_ends(attempt.submission_id, "failed", "no rows")
    return history


async def give_up(history: History, kind: str, reason: str) -> None:
    await history.database.pool.execute(
        "UPDATE notification SET state = 'failed', tries = 8, reason = $2, ended_at = now() WHERE kind = $1", kind, reason
    )


async def test_deadlines_are_listed_with_what_became_of_them(cli: Cli, watched: History) -> None:
    answer = await cli("deadlines", "list")

    assert answer.rows[0] == ["DAG", "RUN", "TASK", "DEADLINE", "STATE", "DUE", "MET", "MISSED"]
    assert [(row[0], row[2], row[3], row[4]) for row in answer.rows[1:]] == [
        ("watched", "load", "soon", "missed"),
        ("watched", "-", "later", "met"),
    ]


async def test_only_missed_deadlines_are_listed_where_they_are_asked_for(cli: Cli, watched: History) -> None:
    answer = await cli("deadlines", "list", "watched", "--missed", "--json")

    (missed,) = answer.json
    assert (missed["task_id"], missed["name"], missed["state"], missed["met_at"]) == ("load", "soon", "missed", None)


async def test_notifications_are_listed_newest_first_without_what_may_be_secret(cli: Cli, watched: History) -> None:
    answer = await cli("notifications", "list")

    assert answer.rows[0] == ["ID", "DAG", "RUN", "TASK", "ON", "TO", "STATE", "TRIES", "AGE", "REASON"]
    assert [(row[1], row[3], row[4], row[5]) for row in answer.rows[1:3]] == [
        ("watched", "-", "failure", "https://hooks.example.org"),
        ("watched", "-", "failure", "tell()"),
    ]
    assert "mail to ops@example.org" in answer.out
    assert "secret" not in answer.out


async def test_only_those_given_up_are_listed_where_they_are_asked_for(cli: Cli, watched: History) -> None:
    await give_up(watched, "email", "no mail server is set; set TIDEGATE_SMTP_HOST")

    answer = await cli("notifications", "list", "--failed", "--json")

    (failed,) = answer.json
    assert (failed["state"], failed["tries"], failed["reason"]) == ("failed", 8, "no mail server is set; set TIDEGATE_SMTP_HOST")
    assert failed["receiver"] == {"kind": "email", "to": ["ops@example.org"]}
    assert failed["context"]["deadline"]["name"] == "soon"


async def test_what_is_tried_again_says_when_and_why(cli: Cli, watched: History) -> None:
    await watched.database.pool.execute(
        "UPDATE notification SET tries = 1, reason = 'it answered 500', due_at = '2130-01-01' WHERE kind = 'webhook'"
    )

    answer = await cli("notifications", "list")

    assert "next try at 2130-01-01 00:00:00Z; it answered 500" in answer.out


@pytest.mark.parametrize("noun", ["deadlines", "notifications"])
async def test_nothing_to_list_is_said(cli: Cli, watched: History, noun: str) -> None:
    await watched.database.pool.execute("TRUNCATE deadline, notification")

    assert await cli(noun, "list") == (0, "", f"there are no such {noun}\n")


@pytest.mark.parametrize("noun", ["deadlines", "notifications"])
async def test_a_dag_that_there_is_not_is_said(cli: Cli, watched: History, noun: str) -> None:
    answer = await cli(noun, "list", "missing")

    assert (answer.code, "there is no DAG 'missing'" in answer.err) == (1, True)


async def test_the_page_of_a_run_has_its_deadlines_and_notifications(cli: Cli, watched: History) -> None:
    page = (await cli("runs", "show", "watched", "latest")).out

    assert "\ndeadlines\n" in page
    assert "\nnotifications\n" in page
    assert "task 'load' missed the deadline 'soon' of " in page


async def test_the_page_of_a_run_in_json_has_them_too(cli: Cli, watched: History) -> None:
    page = (await cli("runs", "show", "watched", "latest", "--json")).json

    assert {deadline["state"] for deadline in page["deadlines"]} == {"met", "missed"}
    assert {notification["receiver"]["kind"] for notification in page["notifications"]} == {"email", "webhook", "function"}


async def test_the_page_of_a_run_without_any_does_not_speak_of_them(cli: Cli, history: History) -> None:
    await history.file()
    await history.run()

    page = (await cli("runs", "show", "daily_delays", "latest")).out

    assert "deadlines" not in page
    assert "notifications" not in page


async def id_of(history: History, kind: str) -> tuple[str, UUID]:
    row = await history.database.pool.fetchrow("SELECT id, delivery_id FROM notification WHERE kind = $1", kind)
    assert row is not None
    return str(row["id"]), UUID(str(row["delivery_id"]))


async def test_the_log_of_a_function_is_printed(cli: Cli, watched: History, tmp_path: Path) -> None:
    id_, delivery = await id_of(watched, "function")
    await watched.database.pool.execute("UPDATE notification SET tries = 2 WHERE kind = 'function'")
    spool = Spool(tmp_path / "spool", submission_id(delivery, 2))
    spool.path.mkdir(parents=True)
    spool.log.write_text("told\n")

    assert await cli("notifications", "logs", id_) == (0, "told\n", "")


@pytest.mark.parametrize(
    ("host", "says"), [(None, "it has not been tried yet"), ("worker-7", "it ran on worker-7")], ids=["nowhere", "elsewhere"]
)
async def test_a_log_that_is_not_here_says_where_it_is(cli: Cli, watched: History, host: str | None, says: str) -> None:
    id_, _ = await id_of(watched, "function")
    await watched.database.pool.execute("UPDATE notification SET host = $1", host)

    answer = await cli("notifications", "logs", id_)

    assert (answer.code, says in answer.err) == (1, True)


async def test_a_mail_has_no_log(cli: Cli, watched: History) -> None:
    id_, _ = await id_of(watched, "email")

    assert await cli("notifications", "logs", id_) == (
        1,
        "",
        f"tidegate: notification {id_} has no log: only callback functions have one\n",
    )


async def test_a_notification_that_there_is_not_is_said(cli: Cli, watched: History) -> None:
    answer = await cli("notifications", "logs", "4711")

    assert (answer.code, "there is no notification 4711" in answer.err) == (1, True)
