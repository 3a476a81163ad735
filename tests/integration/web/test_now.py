"""The first page."""

from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from tests.integration.browser.history import INCIDENT, LOSS
from tests.integration.cli import dead_letters
from tests.integration.cli.history import DAILY
from tests.integration.web.conftest import Site
from tidegate.daemon import runs
from tidegate.schemas.queries import now as queries
from tidegate.schemas.state import RunState


async def now(site: Site) -> str:
    async with site.browser() as client:
        return (await client.get("/")).text


async def test_an_empty_installation_leads_to_a_first_dag(site: Site) -> None:
    text = await now(site)

    assert "three steps to the first one" in text
    assert "No daemon is alive" in text


async def test_without_trouble_all_is_well(site: Site) -> None:
    await site.history.file()
    await site.history.daemon()

    assert "all well" in await now(site)


async def test_a_failed_run_needs_attention_until_its_dag_succeeds(site: Site) -> None:
    await site.history.daemon()
    await site.history.file(DAILY.replace("retries=1", "retries=0"))
    await site.history.run()
    (claimed,) = await site.history.attempts_begin()
    await site.history.attempt_ends(claimed.submission_id, "failed", reason="OSError: full")
    await site.history.database.pool.execute(
        "INSERT INTO dag_run (dag_id, run_id, run_type, state, version_id, run_after, state_seq, unfinished, end_date)"
        " SELECT dag_id, 'later', 'manual', 'success', version_id, now() + interval '1 min', 1, 0, now() - interval '1 h'"
        " FROM dag"
    )
    failed = await now(site)
    await site.history.database.pool.execute("UPDATE dag_run SET end_date = now() + interval '1 s' WHERE run_id = 'later'")

    assert "join</a>: <code>OSError: full" in failed
    assert "OSError: full" not in await now(site)


@pytest.mark.parametrize("end", [runs.cancel, partial(runs.mark, state=RunState.FAILED)], ids=["cancelled", "marked"])
async def test_a_run_that_a_user_failed_needs_no_attention(site: Site, end: Callable[..., Awaitable[object]]) -> None:
    await site.history.daemon()
    await site.history.file()
    await site.history.run()
    await end(site.history.database, "anna", "daily_delays", "latest")

    assert "all well" in await now(site)


async def test_a_backfill_with_failed_dates_needs_attention(site: Site) -> None:
    await site.history.daemon()
    await site.history.file()
    await site.history.database.pool.execute(
        "INSERT INTO backfill (dag_id, version_id, relative_fileloc, origin_code, state, start_date, end_date, max_active_runs,"
        " priority, reprocess, is_reverse, outlets, submitted_at, submitted_by, horizon, dates, failed, run_end_date, deleted)"
        " SELECT dag_id, version_id, 'a.py', '', each.state::backfill_state, now(), now(), 1, 0, 'none', false, 'events', now(),"
        "  'anna', now(), 5, each.failed, now() - each.ago::interval, each.deleted"
        " FROM dag, (VALUES ('running', 2, NULL, false), ('failed', 1, '1 h', false), ('failed', 1, '2 days', false),"
        "  ('failed', 1, '1 h', true), ('running', 0, NULL, false)) AS each (state, failed, ago, deleted)"
    )

    text = await now(site)

    assert [f"backfill {id_} of" in text for id_ in range(1, 6)] == [True, True, False, False, False]
    assert '2 of its 5 planned dates failed; <a href="/backfills/1/retry">Retry backfill 1…</a> runs these again' in text
    assert '1 of its dates failed (<a href="/backfills/2?state=failed">the page of backfill 2</a>)' in text


MISSED = """
INSERT INTO deadline (dag_run_id, name, due_at, missed_at)
SELECT run.id, CASE n WHEN 1 THEN 'of a long run' ELSE 'of long ago' END, now(),
    now() - CASE n WHEN 1 THEN interval '1 h' ELSE interval '2 days' END
FROM dag_run AS run, generate_series(1, 21) AS n
ORDER BY n
"""
"""The deadline that was missed last has the lowest id."""


async def test_trouble_of_the_installation_is_listed(site: Site) -> None:
    """Each kind of which no other test here is."""
    await site.history.daemon(away={"Kafka": "no broker answers"})
    await site.history.file(DAILY.replace("retries=1", "pool='tiny'"))
    await site.history.run()
    await site.history.broken_file("bad.py", "SyntaxError: no", 2)
    await site.history.file(DAILY.replace("daily_delays", "held"), "held.py")
    await site.history.database.pool.execute("UPDATE dag SET held_since = now(), hold_reason = 'it broke' WHERE dag_id = 'held'")
    await site.history.database.pool.execute(MISSED)
    await site.history.database.pool.execute(INCIDENT, "updates/3", 7)
    await site.history.database.pool.execute(LOSS)
    await dead_letters.written(site.history)

    text = await now(site)

    kinds = (
        "no broker answers",
        "Postgres has lost commits of",
        "<b>updates/3</b> is not read",
        "missed the deadline of a long run",
        "it broke",
        "bad.py:2",
        "<b>tiny</b>, which does not exist",
        "3 records could not be handled",
    )
    assert [kind for kind in kinds if kind not in text] == []
    assert '<div class="big bad-text">8</div><small>need attention</small>' in text
    assert "of long ago" not in text


async def test_runs_that_missed_the_same_deadline_are_one_entry(site: Site) -> None:
    await site.history.daemon()
    await site.history.file()
    await site.history.run()
    await site.history.database.pool.execute(
        "INSERT INTO deadline (dag_run_id, task_id, name, due_at, missed_at)"
        " SELECT run.id, task, 'by nine', now() - make_interval(hours => n), now() - make_interval(mins => n)"
        " FROM dag_run AS run, generate_series(1, 30) AS n, unnest(ARRAY[NULL, 'join']) AS task"
    )

    text = await now(site)

    assert '<div class="big bad-text">2</div><small>need attention</small>' in text
    assert text.count("missed the deadline by nine, as 29 other runs of the last day did") == 2
    assert text.count(" join<br>missed") == 1


SUCCESS = """
INSERT INTO dag_run (dag_id, run_id, run_type, state, version_id, run_after, state_seq, unfinished, start_date, end_date)
SELECT dag_id, 'before', 'manual', 'success', version_id, now() - interval '1 h', 1, 0, now() - interval '54 s', now()
FROM dag
"""


async def test_a_run_that_waits_longer_than_usual_is_stuck(site: Site) -> None:
    await site.history.daemon()
    await site.history.file()
    await site.history.run()
    execute = site.history.database.pool.execute
    await execute("UPDATE pool SET slots = 0")
    await execute("UPDATE task_instance SET scheduled_at = now() - interval '9 min' WHERE state = 'scheduled'")

    pages = [await now(site)]
    for change in (SUCCESS, "UPDATE pool SET slots = 8", "UPDATE dag SET is_paused = true"):
        await execute(change)
        pages.append(await now(site))

    assert ["</span> stuck</span>" in text for text in pages] == [False, True, True, False]
    assert "its runs usually take at most 54s" in pages[1]
    assert "join</a> waits for pool &#39;default_pool&#39; to become larger: it has 0 slots" in pages[1]
    assert '<a href="/queue/pool?name=default_pool">its turn in the queue</a>' in pages[2]


async def test_a_late_dataset_that_a_dag_waits_for_is_listed(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    await site.history.daemon()
    await site.history.file()
    await site.history.hourly("lake://weather")
    execute = site.history.database.pool.execute
    await execute("UPDATE dataset_event SET received_at = now() - interval '121 min'")
    await execute("DELETE FROM dataset_dag_run_queue")
    await site.history.updated("lake://flights", "f-1")

    pages = [await now(site)]
    for change in ("UPDATE dataset_dag_run_queue SET created_at = now() - interval '2 min'", "UPDATE dag SET is_paused = true"):
        await execute(change)
        pages.append(await now(site))

    assert ["<b>lake://weather</b>" in text for text in pages] == [False, True, False]
    assert "usually comes every 1h00m, the last event" in pages[1]
    assert "daily_delays</a> waits for it with events of other datasets" in pages[1]
    async with site.browser() as client:
        of_dag = (await client.get("/dags/daily_delays")).text
    assert 'lake://weather</a> <span class="chip bad"><span aria-hidden="true">✕</span> late</span>' in of_dag
    monkeypatch.setattr(queries, "DAGS", 1)
    assert ["Late datasets are looked for" in text for text in (pages[1], await now(site))] == [False, True]


@pytest.mark.parametrize("damage", ["received_at = '-infinity'", "received_at = 'infinity'", "occurred_at = '-infinity'"])
async def test_a_damaged_time_of_an_event_breaks_no_page(site: Site, damage: str) -> None:
    await site.history.daemon()
    await site.history.file()
    await site.history.hourly("lake://weather")
    execute = site.history.database.pool.execute
    await execute(f"UPDATE dataset_event SET {damage} WHERE id = (SELECT max(id) FROM dataset_event)")
    await execute("DELETE FROM dataset_dag_run_queue")
    await site.history.updated("lake://flights", "f-1")
    await execute("UPDATE dataset_dag_run_queue SET created_at = now() - interval '2 min'")

    async with site.browser() as client:
        assert [(await client.get(path)).status_code for path in ("/", "/datasets")] == [200, 200]


async def test_what_is_at_work_is_listed(site: Site) -> None:
    await site.history.daemon()
    await site.history.file()
    await site.history.run()
    await site.history.attempts_begin()

    text = await now(site)

    assert '<div class="big">1</div><small>task holds slots</small>' in text
    assert "join holds a slot" in text


INSTANCE = """
INSERT INTO task_instance (dag_run_id, task_index, task_id, state, end_date, reason)
SELECT dag_run_id, 1048576 + 3, task_id, state, end_date, 'it was marked' FROM task_instance WHERE task_id = 'join'
"""


async def test_a_mapped_task_that_failed_is_named_by_its_instance(site: Site) -> None:
    await site.history.daemon()
    await site.history.file(DAILY.replace("retries=1", "retries=0"))
    await site.history.run()
    (claimed,) = await site.history.attempts_begin()
    await site.history.attempt_ends(claimed.submission_id, "failed", reason="a try of the list")
    await site.history.database.pool.execute(INSTANCE)
    await site.history.database.pool.execute("UPDATE task_instance SET elements = 4 WHERE task_index = 0")

    assert "join[3]</a>: <code>it was marked" in await now(site)


async def test_the_next_hour_has_the_dags_that_time_may_start(site: Site) -> None:
    await site.history.file()
    await site.history.database.pool.execute("UPDATE dag SET due_at = now() + interval '1 min'")
    active = await now(site)
    await site.history.database.pool.execute("UPDATE dag SET is_stale = true")

    assert "Time starts no DAG" not in active
    assert "Time starts no DAG within an hour" in await now(site)
