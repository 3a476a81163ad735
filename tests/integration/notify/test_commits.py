"""No notification of what did not happen, and none twice once it was acknowledged, also when daemons die in between."""

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anyio
import asyncpg
import msgspec
import pytest

from tests.integration.notify.hook import HANG, Hook
from tests.integration.notify.notified_dag import NotifiedDag
from tests.integration.notify.post import Post
from tidegate.daemon import perform
from tidegate.daemon.settings import Settings
from tidegate.schemas.queries import notifications


async def begun(notified: NotifiedDag, hook: Hook) -> Any:
    """The attempt whose end will be told."""
    await notified.dag(f"on_failure=Webhook({hook.url!r})", task="command('a', ['false'])")
    await notified.run()
    return await notified.attempt()


def at_last(monkeypatch: pytest.MonkeyPatch, step: Any) -> None:
    """In the place of the last step of a transaction."""
    monkeypatch.setattr(perform, "PERFORM", (*perform.PERFORM[:-1], (perform.PERFORM[-1][0], step)))


async def test_r25_a_callback_is_sent_only_after_the_commit(
    notified: NotifiedDag, post: Post, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt = await begun(notified, hook)
    decided, may_commit = anyio.Event(), anyio.Event()

    async def wait(*_: object) -> None:
        decided.set()
        await may_commit.wait()

    async with anyio.create_task_group() as tg, post.at_work():
        at_last(monkeypatch, wait)
        tg.start_soon(notified.ends, attempt, "failed")
        await decided.wait()
        before = (await post.once(), list(hook.got))
        may_commit.set()
        await hook.until(1)
        await notified.until("sent")

    assert before == (False, [])
    assert len(hook.got) == 1


async def test_r25_a_callback_of_what_was_rolled_back_is_never_sent(
    notified: NotifiedDag, post: Post, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt = await begun(notified, hook)

    async def fail(*_: object) -> None:
        raise ZeroDivisionError

    at_last(monkeypatch, fail)
    with pytest.raises(ZeroDivisionError):
        await notified.ends(attempt, "failed")
    was_due = await post.once()

    assert (was_due, hook.got, await notified.notifications()) == (False, [], [])


async def test_a_transition_that_is_taken_twice_is_told_once(notified: NotifiedDag, post: Post, hook: Hook) -> None:
    attempt = await begun(notified, hook)
    await notified.ends(attempt, "failed")
    (row,) = await notified.rows(
        "SELECT dag_run_id, version_id, about, seq, kind, receiver_id, receiver, context FROM notification"
    )

    await notified.database.run(lambda db: db.execute(notifications._SQL["insert_notifications"], *[[value] for value in row]))
    async with post.at_work():
        await notified.until("sent")

    assert len(hook.got) == 1


async def test_an_acknowledgement_is_kept_in_mind_until_postgres_has_it(
    notified: NotifiedDag, post: Post, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Postgres ends all its connections while the answer is on its way."""
    await notified.ends(await begun(notified, hook), "failed")
    record, refused = notifications.record_sent, 0

    async def refuse_twice(db: Any, id_: int, note: str) -> None:
        nonlocal refused
        refused += 1
        if refused <= 2:
            await db.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        await record(db, id_, note)

    monkeypatch.setattr(notifications, "record_sent", refuse_twice)
    async with post.at_work():
        (sent,) = await notified.until("sent")

    assert (refused, len(hook.got), sent.tries) == (3, 1, 1)


async def test_connections_that_are_cut_all_the_time_lose_and_double_nothing(
    notified: NotifiedDag, post: Post, hook: Hook, dsn: str
) -> None:
    await notified.dag(f"max_active_runs=100, on_success=Webhook({hook.url!r})")
    for number in range(40):
        await notified.run(f"r{number}")
    elsewhere = await asyncpg.connect(dsn)

    async with post.at_work():
        for _ in range(20):
            await elsewhere.execute(CUT)
            await anyio.sleep(0.05)
        await hook.until(40)
        await left_alone(elsewhere)

    await elsewhere.close()
    assert Counter(Counter(got.key for got in hook.got).values()) == {1: 40}


CLAIMS_END = "UPDATE notification SET due_at = now() - interval '1 s'"
CUT = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"


async def left_alone(db: Any) -> None:
    """Until everything is recorded."""
    with anyio.fail_after(60):
        while await db.fetchval("SELECT count(*) FROM notification WHERE state <> 'sent'"):
            await anyio.sleep(0.02)


@contextmanager
def process(settings: Settings, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process of its own that sends notifications."""
    command = [sys.executable, "-m", "tests.integration.notify.process", *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as running:
        assert running.stdin is not None
        running.stdin.write(msgspec.json.encode(settings))
        running.stdin.close()
        try:
            yield running
        finally:
            running.kill()


async def ended(running: subprocess.Popen[bytes]) -> int:
    with anyio.fail_after(60):
        while (code := running.poll()) is None:
            await anyio.sleep(0.02)
    return code


async def test_a_daemon_that_dies_between_send_and_record_leaves_it_to_another_with_the_same_key(
    notified: NotifiedDag, post: Post, hook: Hook
) -> None:
    await notified.ends(await begun(notified, hook), "failed")

    with process(post.settings, "--die-before-record") as dying:
        code = await ended(dying)
    await notified.rows(CLAIMS_END)
    with process(post.settings, "--margin", "0.5"):
        (sent,) = await notified.until("sent")

    assert code == -signal.SIGKILL
    assert (sent.tries, len(hook.got), len({got.key for got in hook.got})) == (2, 2, 1)


async def test_a_daemon_that_dies_in_the_middle_of_a_send_leaves_it_to_another_with_the_same_key(
    notified: NotifiedDag, post: Post, hook: Hook
) -> None:
    hook.answers = [HANG]
    await notified.ends(await begun(notified, hook), "failed")

    with process(post.settings) as dying:
        await hook.until(1)
        os.kill(dying.pid, signal.SIGKILL)
    await notified.rows(CLAIMS_END)
    with process(post.settings, "--margin", "0.5"):
        await notified.until("sent")

    assert (len(hook.got), len({got.key for got in hook.got})) == (2, 1)


async def test_what_was_acknowledged_and_recorded_is_not_sent_again(notified: NotifiedDag, post: Post, hook: Hook) -> None:
    await notified.ends(await begun(notified, hook), "failed")
    with process(post.settings) as first:
        await notified.until("sent")
        os.kill(first.pid, signal.SIGKILL)
    await notified.rows(CLAIMS_END)

    taken, got = await post.once(), len(hook.got)
    await notified.run("r2")
    await notified.ends(await notified.attempt(), "failed")
    with process(post.settings):
        await notified.until("sent", "sent")

    assert (taken, got, len(hook.got)) == (False, 1, 2)
