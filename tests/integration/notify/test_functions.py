"""Functions of a DAG file that are told what happened: in a process of their own, once, with a log, and never in the daemon."""

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

import anyio
import pytest

from tests.integration.notify.functions import FUNCTIONS, Told
from tests.integration.notify.missed_deadlines import LATE_INPUTS
from tests.integration.notify.notified_dag import Notification, NotifiedDag
from tests.integration.notify.post import Post
from tests.waiting import until
from tidegate.daemon.duties import notify
from tidegate.daemon.duties.receivers.function import submission_id
from tidegate.daemon.settings import Settings
from tidegate.daemon.spark.process import end_all, send, stamped
from tidegate.daemon.spark.spool import Spool, spools


@pytest.fixture
async def told(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Told]:
    monkeypatch.setattr(notify, "POLL_MARGIN_S", 0.5)
    told = Told(tmp_path / "told")
    yield told
    told.go()
    for spool in spools(Path(settings.spool_dir)):
        end_all(spool.submission_id, 2)


async def failed_run(notified: NotifiedDag, told: Told, function: str) -> None:
    functions = FUNCTIONS.format(out=str(told.out))
    await notified.dag(f"on_failure={function}", task="command('a', ['false'])", functions=functions)
    await notified.run()
    await notified.ends(await notified.attempt(), "failed", "no rows")


async def delivery(notified: NotifiedDag) -> UUID:
    ((id_,),) = await notified.rows("SELECT delivery_id FROM notification")
    return UUID(str(id_))


async def owner(notified: NotifiedDag) -> object:
    """The daemon that has the notification."""
    return (await notified.rows("SELECT owner FROM notification"))[0][0]


async def test_a_function_is_told_what_happened_in_another_process(notified: NotifiedDag, post: Post, told: Told) -> None:
    await failed_run(notified, told, "tell")

    async with post.at_work():
        await notified.until("sent")

    (context,) = told.all()
    assert (context.on, context.dag_id, context.run_id, context.state) == ("failure", "d", "r1", "failed")
    assert context.id == await delivery(notified)
    spool = Spool(Path(post.settings.spool_dir), submission_id(await delivery(notified), 1))
    assert b"told of failure\n" in spool.log.read_bytes()


async def test_a_function_is_told_of_inputs_that_are_late_without_a_run(notified: NotifiedDag, post: Post, told: Told) -> None:
    await notified.dag(f"{LATE_INPUTS}, on_deadline=tell", functions=FUNCTIONS.format(out=str(told.out)))
    await notified.inputs_are_late()

    async with post.at_work():
        await notified.until("sent")

    (context,) = told.all()
    assert (context.on, context.dag_id, context.run_id, context.state) == ("deadline", "d", None, None)
    assert context.reason.endswith(": the DAG still waits for them")


async def test_it_is_no_attempt_of_a_task_and_sends_nothing_to_kafka(notified: NotifiedDag, post: Post, told: Told) -> None:
    """A runner that has something to say connects to Kafka before it ends."""
    connections: list[asyncio.StreamWriter] = []
    kafka = await asyncio.start_server(lambda _, writer: connections.append(writer), "127.0.0.1", 0)
    await failed_run(notified, told, "tell")

    async with kafka, post.other(kafka_servers=f"127.0.0.1:{kafka.sockets[0].getsockname()[1]}").at_work():
        await notified.until("sent")
        runner = submission_id(await delivery(notified), 1)
        await until(lambda: not list(stamped(runner)), 60)

    assert connections == []
    assert await notified.rows("SELECT count(*) FROM submission") == [(1,)]


async def test_a_function_that_raises_is_called_again_with_the_same_id(notified: NotifiedDag, post: Post, told: Told) -> None:
    await failed_run(notified, told, "fail_once")

    async with post.at_work():
        (sent,) = await notified.until("sent")

    first, second = told.all()
    assert (sent.tries, first.id) == (2, second.id)


async def test_a_function_that_always_raises_is_given_up_with_what_it_raised(
    notified: NotifiedDag, post: Post, told: Told
) -> None:
    told.out.mkdir()
    await failed_run(notified, told, "tell")

    async with post.other(notify_tries=2).at_work():
        (failed,) = await notified.until("failed")

    assert failed.tries == 2
    assert failed.reason.startswith("IsADirectoryError: ")
    assert failed.reason.endswith("(d.py, line 11)")


async def test_a_daemon_that_takes_over_waits_for_the_function_that_runs(notified: NotifiedDag, post: Post, told: Told) -> None:
    await failed_run(notified, told, "wait")
    async with post.at_work():
        await told.until(1)
    first = await owner(notified)

    async def is_taken_over() -> bool:
        return await owner(notified) != first

    async with post.other().at_work():
        await until(is_taken_over, 60)
        told.go()
        (sent,) = await notified.until("sent")

    assert (sent.tries, len(told.all())) == (1, 1)


async def test_no_more_functions_run_at_a_time_than_there_are_places(
    notified: NotifiedDag, post: Post, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify, "CONCURRENCY", {**notify.CONCURRENCY, "function": 2})
    functions = FUNCTIONS.format(out=str(told.out))
    await notified.dag("on_success=wait", functions=functions)
    for number in range(5):
        await notified.run(f"r{number}")

    async with post.at_work():
        await told.until(2)
        await anyio.sleep(1)
        at_first = len(told.all())
        told.go()
        await notified.until(*["sent"] * 5)

    assert (at_first, len(told.all())) == (2, 5)


async def test_a_function_whose_process_was_killed_is_called_again(notified: NotifiedDag, post: Post, told: Told) -> None:
    """Its runner is in contact until then."""
    await failed_run(notified, told, "wait")

    async with post.at_work():
        await told.until(1)
        spool = Spool(Path(post.settings.spool_dir), submission_id(await delivery(notified), 1))
        with anyio.fail_after(60):
            while spool.confirmed_beat() != spool.last_beat():
                await anyio.sleep(0.01)
        for process in stamped(spool.submission_id):
            send(process, signal.SIGKILL)
        await told.until(2)
        told.go()
        (sent,) = await notified.until("sent")

    assert sent.tries == 2


async def test_a_function_that_takes_too_long_is_killed(notified: NotifiedDag, post: Post, told: Told) -> None:
    await failed_run(notified, told, "wait")

    async with post.other(callback_timeout_s=0.5, notify_tries=1).at_work():
        (failed,) = await notified.until("failed")

    assert failed.reason == "it was killed; it may take 0.5 s (TIDEGATE_CALLBACK_TIMEOUT_S)"
    assert list(stamped(submission_id(await delivery(notified), 1))) == []


async def test_another_host_leaves_it_alone_until_the_first_one_has_been_silent_for_long(
    notified: NotifiedDag, post: Post, told: Told, tmp_path: Path
) -> None:
    await failed_run(notified, told, "wait")
    async with post.at_work():
        await told.until(1)
    elsewhere = {"host": "elsewhere", "spool_dir": str(tmp_path / "elsewhere")}

    patient = await post.other(**elsewhere).once()
    told.go()
    await notified.database.pool.execute("UPDATE notification SET due_at = due_at - interval '1 day'")
    async with post.other(**elsewhere).at_work():
        (sent,) = await notified.until("sent")

    assert (patient, sent.tries, len(told.all())) == (False, 2, 2)


async def test_the_version_of_the_run_is_the_one_that_is_called(notified: NotifiedDag, post: Post, told: Told) -> None:
    await failed_run(notified, told, "tell")
    await notified.dag("on_failure=None", task="command('a', ['false'])")

    async with post.at_work():
        await notified.until("sent")

    assert len(told.all()) == 1


async def test_a_function_that_the_file_builds_no_more_is_named(notified: NotifiedDag, post: Post, told: Told) -> None:
    """Because it builds something else on this host."""
    await failed_run(notified, told, "tell")
    await notified.database.pool.execute("UPDATE dag_version SET source = 'from tidegate import Dag'")

    await post.other(notify_tries=1).once()
    async with post.other(notify_tries=1).at_work():
        failed = await notified.until("failed")

    reason = "d.py builds no DAG 'd' with a callback 'tell' on this host"
    assert failed == [Notification("failure", "function", "failed", 1, reason)]


async def test_what_cannot_be_told_at_all_ends_nothing_but_its_own_tries(notified: NotifiedDag, post: Post, told: Told) -> None:
    """A run that does not exist, which the code does not expect."""
    await failed_run(notified, told, "tell")
    await notified.database.pool.execute("UPDATE notification SET dag_run_id = 4711")

    async with post.other(notify_tries=2).at_work():
        (failed,) = await notified.until("failed")

    assert (failed.tries, failed.reason) == (2, "KeyError: 4711")
