"""Webhooks, to a real server: signed, acknowledged by 2xx alone, tried again with the same key, and given up with a record."""

import time
from collections import Counter
from datetime import timedelta

import anyio
import msgspec
import pytest
import time_machine

from tests.integration.notify.hook import ENDLESS, HANG, SECRET, Hook
from tests.integration.notify.notified_dag import PATIENCE_S, Notification, NotifiedDag
from tests.integration.notify.post import Post
from tidegate.daemon.duties import notify as duty
from tidegate.daemon.duties.notify import Notifier
from tidegate.daemon.duties.receivers.delivery import Failed, Sent
from tidegate.schemas.queries.notifications import ClaimedNotification

TOLD = "SELECT state::text, tries, reason ^@ 'this version cannot read it: ' FROM notification ORDER BY id"


async def failed_run(notified: NotifiedDag, *hooks: Hook | str, runs: int = 1) -> None:
    """Runs whose failures the hooks, or their URLs, are to be told of."""
    receivers = ", ".join(f"Webhook({hook if isinstance(hook, str) else hook.url!r})" for hook in hooks)
    await notified.dag(f"max_active_runs=100, on_failure=[{receivers}]", task="command('a', ['false'])")
    for number in range(runs):
        await notified.run(f"r{number}")
    for claimed in await notified.history.attempts_begin():
        await notified.ends(claimed.submission_id, "failed", "no rows")


async def taken_up(notified: NotifiedDag, by: Notifier) -> list[ClaimedNotification]:
    """What another daemon claims once the claim has ended, and once more after the time to record the result."""
    for _ in range(2):
        await notified.database.pool.execute("UPDATE notification SET due_at = now() - interval '1 s'")
        claims = await notified.database.run(by.claim, {"webhook": 1})
    return claims


async def test_a_hook_is_told_what_happened_signed_and_once(notified: NotifiedDag, post: Post, hook: Hook) -> None:
    await failed_run(notified, hook)

    async with post.at_work():
        await notified.until("sent")

    (got,) = hook.got
    assert got.is_signed_with(SECRET)
    assert got.headers["content-type"] == "application/json"
    assert abs(int(got.headers["x-tidegate-timestamp"]) - time.time()) < 300
    assert got.key == got.headers["x-tidegate-delivery"] == got.said["id"]
    said = {name: got.said[name] for name in ("on", "dag_id", "run_id", "run_type", "state", "task_id", "deadline")}
    assert said == {
        "on": "failure",
        "dag_id": "d",
        "run_id": "r0",
        "run_type": "manual",
        "state": "failed",
        "task_id": None,
        "deadline": None,
    }


@pytest.mark.parametrize("ahead_s", [600, -600])
async def test_a_hook_is_fresh_also_where_the_clock_of_the_host_is_wrong(
    notified: NotifiedDag, post: Post, hook: Hook, ahead_s: float
) -> None:
    await failed_run(notified, hook)
    now = time.time()

    with time_machine.travel(now + ahead_s, tick=True):
        async with post.at_work():
            await notified.until("sent")

    (got,) = hook.got
    assert got.is_signed_with(SECRET)
    assert abs(int(got.headers["x-tidegate-timestamp"]) - now) < 300


async def test_a_notification_with_the_largest_number_of_tries_stops_no_other(
    notified: NotifiedDag, post: Post, hook: Hook
) -> None:
    await failed_run(notified, hook, runs=2)
    await notified.database.pool.execute(
        "UPDATE notification SET tries = 2147483647 WHERE id = (SELECT min(id) FROM notification)"
    )

    async with post.at_work():
        await hook.until(2)
        await notified.until("sent", "sent")

    assert await notified.database.pool.fetchval("SELECT array_agg(tries ORDER BY id) FROM notification") == [2147483647, 1]


async def test_without_a_secret_nothing_is_signed(notified: NotifiedDag, post: Post, hook: Hook) -> None:
    await failed_run(notified, hook)

    async with post.other(webhook_secret="").at_work():
        await notified.until("sent")

    assert "x-tidegate-signature" not in hook.got[0].headers


@pytest.mark.parametrize("status", [500, 503, 408, 429, 302])
async def test_a_failure_is_tried_again_with_the_same_key(notified: NotifiedDag, post: Post, hook: Hook, status: int) -> None:
    hook.answers = [status, status]
    await failed_run(notified, hook)

    async with post.at_work():
        (sent,) = await notified.until("sent")

    assert (sent.tries, [got.status for got in hook.got]) == (3, [status, status, 200])
    assert len({(got.key, got.body) for got in hook.got}) == 1


@pytest.mark.parametrize("status", [400, 401, 404, 410])
async def test_a_refusal_is_final(notified: NotifiedDag, post: Post, hook: Hook, status: int) -> None:
    hook.answers = [status]
    await failed_run(notified, hook)

    async with post.at_work():
        (failed,) = await notified.until("failed")

    assert failed.reason.startswith(f"it answered {status} ")
    assert len(hook.got) == 1


async def test_a_hook_that_hangs_is_tried_again_with_the_same_key(notified: NotifiedDag, post: Post, hook: Hook) -> None:
    """It may have understood the first time."""
    hook.answers = [HANG]
    await failed_run(notified, hook)

    async with post.other(notify_timeout_s=1.0).at_work():
        (sent,) = await notified.until("sent")

    assert sent.tries >= 2, "a busy machine may give up more tries than the first"
    assert len({got.key for got in hook.got}) == 1


async def test_a_success_counts_however_the_answer_goes_on(notified: NotifiedDag, post: Post, hook: Hook) -> None:
    hook.answers = [ENDLESS]
    await failed_run(notified, hook)

    async with post.at_work():
        (sent,) = await notified.until("sent")

    assert (sent.tries, len(hook.got)) == (1, 1)


async def test_a_hook_that_cannot_be_reached_is_given_up_with_a_record(
    notified: NotifiedDag, post: Post, refusing_port: int
) -> None:
    await failed_run(notified, f"http://127.0.0.1:{refusing_port}/hook")

    async with post.other(notify_tries=3).at_work():
        (failed,) = await notified.until("failed")

    assert failed.tries == 3
    assert failed.reason == "it could not be reached: Connection refused"


async def test_what_is_wrong_stands_in_the_record_before_the_next_try(notified: NotifiedDag, post: Post, hook: Hook) -> None:
    hook.answers = [500]
    await failed_run(notified, hook)

    before = notified.database.clock.known()
    await post.other(notify_retry_s=60.0).once()
    ((after,),) = await notified.rows("SELECT now()")

    assert await notified.notifications() == [
        Notification("failure", "webhook", "pending", 1, "it answered 500 Internal Server Error")
    ]
    ((due_at,),) = await notified.rows("SELECT due_at FROM notification")
    assert before + timedelta(seconds=60) <= due_at <= after + timedelta(seconds=75)


@pytest.mark.parametrize("runs", [1, 2 * duty.CONCURRENCY["webhook"]])
async def test_one_that_hangs_delays_no_other(notified: NotifiedDag, post: Post, hook: Hook, runs: int) -> None:
    with Hook() as slow:
        slow.answers = [HANG] * runs
        await failed_run(notified, slow, hook, runs=runs)

        async with post.other(notify_timeout_s=60.0).at_work():
            await hook.until(runs)  # sooner than the first one that hangs is given up
            slow._free.set()


@pytest.mark.parametrize(("kind", "receivers"), [("webhook", 1), ("function", 2)])
async def test_functions_of_two_dags_are_two_receivers(
    notified: NotifiedDag, post: Post, hook: Hook, kind: str, receivers: int
) -> None:
    """They may have the same name. A URL is one receiver, whatever DAGs have it."""
    await failed_run(notified, hook, runs=2)
    other_dags = "UPDATE notification SET kind = $1, context = jsonb_set(context, '{dag_id}', to_jsonb('d' || id))"
    await notified.rows(other_dags, kind)

    claims = await notified.database.run(post.by_hand().claim, {kind: 2})

    assert (len(claims), len({claimed.receiver_key for claimed in claims})) == (2, receivers)


async def test_many_daemons_tell_each_once(notified: NotifiedDag, post: Post, hook: Hook) -> None:
    await failed_run(notified, hook, runs=60)

    async with post.at_work(), post.other().at_work(), post.other().at_work():
        await notified.until(*["sent"] * 60)

    assert Counter(Counter(got.said["run_id"] for got in hook.got).values()) == {1: 60}


async def test_what_a_daemon_is_sending_no_other_takes_up(notified: NotifiedDag, post: Post, hook: Hook) -> None:
    hook.answers = [HANG]
    await failed_run(notified, hook)

    async with post.at_work():
        await hook.until(1)
        taken = await post.other().once()
        hook._free.set()

    assert not taken
    assert len(hook.got) == 1


async def test_what_its_daemon_died_with_is_taken_up_by_another(
    notified: NotifiedDag, post: Post, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It claimed, and was never seen again."""
    monkeypatch.setattr(duty, "CLAIM_MARGIN_S", 0.1)
    await failed_run(notified, hook)
    dead = post.other(notify_timeout_s=0.1).by_hand()
    await notified.database.run(dead.claim, {"webhook": 1})

    async with post.at_work():
        (sent,) = await notified.until("sent")

    assert (sent.tries, len(hook.got)) == (2, 1)


async def test_a_daemon_that_stops_finishes_what_it_has_begun(notified: NotifiedDag, post: Post, hook: Hook) -> None:
    """Or it would be sent again."""
    hook.answers = [HANG]
    await failed_run(notified, hook)

    async with anyio.create_task_group() as tg, post.at_work():
        await hook.until(1)
        tg.start_soon(anyio.to_thread.run_sync, hook._free.set)  # it begins when the daemon has been told to stop

    assert [(each.state, each.tries) for each in await notified.notifications()] == [("pending", 1)]


async def test_a_late_acknowledgement_is_an_acknowledgement(notified: NotifiedDag, post: Post, hook: Hook) -> None:
    """Of a slow sender whose notification another daemon has taken up meanwhile."""
    await failed_run(notified, hook)
    slow, quick = post.by_hand(), post.by_hand()
    (claimed,) = await notified.database.run(slow.claim, {"webhook": 1})
    (again,) = await taken_up(notified, quick)

    await notified.database.run(quick.write, again, Failed("no", final=True))
    await notified.database.run(slow.write, claimed, Sent())
    await notified.database.run(quick.write, again, Failed("no"))

    assert [(each.state, each.reason) for each in await notified.notifications()] == [("sent", "")]


async def test_a_daemon_has_time_to_record_what_postgres_was_away_for(notified: NotifiedDag, post: Post, hook: Hook) -> None:
    """Its claim has ended meanwhile, and another daemon is the first that Postgres answers."""
    await failed_run(notified, hook)
    mine, other = post.by_hand(), post.by_hand()
    (claimed,) = await notified.database.run(mine.claim, {"webhook": 1})
    await notified.database.pool.execute("UPDATE notification SET due_at = now() - interval '1 s'")

    claims = await notified.database.run(other.claim, {"webhook": 1})
    await notified.database.run(mine.write, claimed, Sent())

    assert (claims, await taken_up(notified, other)) == ([], [])
    assert [(each.state, each.tries) for each in await notified.notifications()] == [("sent", 1)]


async def test_a_late_failure_changes_nothing(notified: NotifiedDag, post: Post, hook: Hook) -> None:
    await failed_run(notified, hook)
    slow, quick = post.by_hand(), post.by_hand()
    (claimed,) = await notified.database.run(slow.claim, {"webhook": 1})
    await taken_up(notified, quick)

    await notified.database.run(slow.write, claimed, Failed("no", final=True))

    assert [(each.state, each.tries) for each in await notified.notifications()] == [("sending", 2)]


async def test_a_sender_that_breaks_ends_nothing_but_the_try(notified: NotifiedDag, post: Post, hook: Hook) -> None:
    await failed_run(notified, hook)
    await notified.database.pool.execute("""UPDATE notification SET receiver = '{"kind": "webhook", "url": "http://[::1:80/"}'""")

    async with post.other(notify_tries=2).at_work():
        (failed,) = await notified.until("failed")

    assert (failed.tries, "Invalid" in failed.reason) == (2, True)


@pytest.mark.parametrize(
    "damage",
    [
        """receiver = jsonb_set(receiver, '{kind}', '"pager"')""",
        "receiver = '[]'",
        "context = '7'",
        """context = jsonb_set(context, '{on}', '"whenever"')""",
    ],
)
async def test_a_notification_that_this_version_cannot_read_costs_itself_alone(
    notified: NotifiedDag, post: Post, hook: Hook, damage: str
) -> None:
    await failed_run(notified, hook, runs=3)
    await notified.rows(f"UPDATE notification SET {damage} WHERE id = (SELECT min(id) FROM notification)")

    async with post.other(notify_tries=2).at_work():
        with anyio.fail_after(PATIENCE_S):
            while (told := await notified.rows(TOLD))[0][0] != "failed" or [row[0] for row in told[1:]] != ["sent"] * 2:
                await anyio.sleep(0.02)

    assert told == [("failed", 2, True), ("sent", 1, False), ("sent", 1, False)]
    assert len(hook.got) == 2


async def test_a_body_of_its_own_is_sent_in_place_of_the_context_with_the_page_of_the_run(
    notified: NotifiedDag, post: Post, hook: Hook
) -> None:
    """As a chat takes it."""
    receiver = f"Webhook({hook.url!r}, body={{'text': '{{headline}}: {{reason}}', 'page': '{{url}}'}})"
    await notified.dag(f"on_failure={receiver}", task="command('a', ['false'])")
    await notified.run("r 1")
    for claimed in await notified.history.attempts_begin():
        await notified.ends(claimed.submission_id, "failed", "no rows")
    post.settings = msgspec.structs.replace(post.settings, public_url="https://tidegate.example.org")

    async with post.at_work():
        await notified.until("sent")

    (got,) = hook.got
    assert got.is_signed_with(SECRET)
    assert got.said == {
        "text": "d: run r 1: failed: task a failed in try 1: no rows",
        "page": "https://tidegate.example.org/dags/d/runs/r%201",
    }
