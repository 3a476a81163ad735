"""`tidegate backfills` on a real database, where a test does the daemon's part."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.documents import ROOT, blocks, calls, steps
from tests.integration.cli.conftest import Cli
from tests.integration.cli.history import History
from tidegate.schemas.queries import backfill_pages

DAILY = """
from datetime import datetime, UTC
from tidegate import Dag, Param, cron
with Dag("daily", schedule=cron("0 6 * * *"), run_immediately=False, params={"n": Param(1, type="integer")}) as dag:
    dag.command("first", ["true"]) >> dag.command("second", ["true"])
"""
JANUARY = ("--from", "2013-01-01", "--to", "2013-01-06")


@pytest.fixture
async def daily(history: History) -> History:
    await history.file(DAILY)
    return history


async def test_a_backfill_is_created_listed_shown_and_followed(cli: Cli, daily: History) -> None:
    assert await cli("backfills", "create", "daily", *JANUARY, "--max-active-runs", "2") == (
        0,
        "created backfill 1 of daily\n",
        "",
    )
    await daily.backfilled()
    await daily.worked()
    await daily.backfilled()

    (row,) = (await cli("backfills", "list", "--json")).json
    assert (row["id"], row["dag_id"], row["state"], row["dates"], row["running"]) == (1, "daily", "running", 2, 2)
    assert (await cli("backfills", "list", "daily")).rows[1][:3] == ["1", "daily", "running"]
    shown = (await cli("backfills", "show", "1")).out
    assert (
        "| total dagruns: 6, 0 ended, 0 failed | total tasks: 12 | finished: 2 | succeeded: 2 | skipped: 0 | failed: 0" in shown
    )
    assert "[backfill progress: 16.7%]" in shown
    assert "because        its limit of 2 active runs is reached" in shown
    assert "dates: 0 queued, 2 running, 0 succeeded, 0 failed, 0 skipped, 0 cancelled, 0 to run again, 4 to come" in shown
    while (await cli("backfills", "list", "--json")).json[0]["state"] == "running":
        await daily.worked()
        await daily.backfilled()
    watched = await cli("backfills", "watch", "1")
    assert watched.out == "backfill 1 ended as success\n"
    assert "[backfill progress: 100.0%] | total dagruns: 6, 6 ended, 0 failed | total tasks: 12 | finished: 12" in watched.err
    assert "| success" in watched.err


async def test_a_dry_run_says_what_would_happen_and_changes_nothing(cli: Cli, daily: History) -> None:
    await cli("runs", "trigger", "daily", "--logical-date", "2013-01-02T06:00", "--run-id", "mine")
    await daily.clock("daily")
    await daily.worked()
    await daily.worked()

    answer = await cli("backfills", "create", "daily", *JANUARY, "--dry-run", "-n", "2")

    assert answer.code == 0
    assert [line[2] for line in answer.rows[1:]] == ["create", "skip"]
    assert answer.err == "6 dates: 5 get a run, 1 is skipped. The first 2 are shown, -n shows more.\n"
    found = (await cli("backfills", "create", "daily", *JANUARY, "--dry-run", "--reprocess", "completed", "--json")).json
    assert [(date["action"], date["run_id"]) for date in found["dates"]][:2] == [("create", None), ("rerun", "mine")]
    again = await cli("backfills", "create", "daily", *JANUARY, "--dry-run", "--reprocess", "failed", "--ignore-first", "--json")
    first = "its tasks do not wait for the run before it: ignore_first_depends_on_past is set"
    assert [date["reason"] == first for date in again.json["dates"]] == [True, *[False] * 5]
    assert (await cli("backfills", "list", "--json")).json == []
    start, end = (f"{datetime.now(UTC) + timedelta(days=days):%Y-%m-%d}" for days in (-2, 2))
    future = (await cli("backfills", "create", "daily", "--from", start, "--to", end, "--dry-run", "--json")).json
    assert future["not_due"] >= 2
    assert sum(future["counts"].values()) + future["not_due"] == 5


async def test_dates_are_listed_with_their_runs_or_reasons(cli: Cli, daily: History) -> None:
    await cli("runs", "trigger", "daily", "--logical-date", "2013-01-02T06:00", "--run-id", "mine")
    await cli("backfills", "create", "daily", *JANUARY)
    await daily.backfilled()

    rows = (await cli("backfills", "dates", "1", "--json")).json

    assert [(row["ordinal"], row["state"]) for row in rows[:2]] == [(1, "open"), (2, "skipped")]
    assert rows[0]["task"] == {"task_id": "first", "state": "scheduled", "pool": "default_pool", "waits_for_past": False}
    assert (rows[1]["run_id"], rows[1]["reason"]) == ("mine", f"its run 'mine' is {rows[1]['run_state']}")
    assert len((await cli("backfills", "dates", "1", "--state", "open", "--after", "3", "--json")).json) == 3
    assert (await cli("backfills", "dates", "1", "-n", "1")).rows[1][:5] == [
        "1",
        "2013-01-01",
        "06:00:00Z",
        "open",
        "daily",
    ]


async def test_a_failed_date_says_why_its_run_failed(cli: Cli, daily: History) -> None:
    await cli("backfills", "create", "daily", *JANUARY, "--max-active-runs", "1", "--max-failed-runs", "1")
    await daily.backfilled()
    await cli("runs", "cancel", "daily", "backfill__2013-01-01T06:00:00+00:00")
    await daily.backfilled()

    (failed,) = (await cli("backfills", "dates", "1", "--state", "failed", "--json")).json

    assert failed["reason"].startswith("cancelled by ")


async def test_it_is_paused_changed_resumed_cancelled_and_deleted(cli: Cli, daily: History) -> None:
    await cli("backfills", "create", "daily", *JANUARY, "--max-active-runs", "1")
    await daily.backfilled()

    assert await cli("backfills", "pause", "1") == (
        0,
        "paused backfill 1. It starts no more runs. 1 running run goes on, 0 queued ones wait until it is resumed.\n",
        "",
    )
    paused = (await cli("backfills", "show", "1")).out
    assert re.search(r"because        paused by \S+ at \S+ \S+; `tidegate backfills resume 1` resumes it", paused)
    assert "task first waits for a daemon: none is alive; `tidegate tasks why-not daily" in paused
    assert await cli("backfills", "set", "1", "--max-active-runs", "3", "--share", "50", "--max-active-tasks", "2") == (
        0,
        "changed backfill 1: max_active_runs is 3, max_active_tasks is 2, share is 50%."
        " It is paused: 1 running run goes on, 0 queued ones wait.\n",
        "",
    )
    taken_back = await cli("backfills", "set", "1", "--max-active-tasks", "none", "--pool", "none")
    assert taken_back.out.startswith("changed backfill 1: max_active_tasks is none, pool is none. It is paused")
    limits = (await cli("backfills", "show", "1", "--json")).json["backfill"]
    assert (limits["max_active_runs"], limits["share"]) == (3, 0.5)
    assert "3 active runs, 50% of a pool, priority -1000000" in (await cli("backfills", "show", "1")).out
    assert (await cli("backfills", "resume", "1")).out == (
        "resumed backfill 1. Its runs start again, at most 3 at once; 0 queued runs first.\n"
    )
    assert (await cli("backfills", "delete", "1", "--yes")).err == "tidegate: backfill 1 is running: it cannot be deleted\n"
    assert (await cli("backfills", "cancel", "1", "--kill")).out == (
        "cancelled backfill 1. Its queued runs fail, 1 running run is ended, and its other dates get no run.\n"
    )
    await daily.backfilled()
    again = await cli("backfills", "cancel", "1")
    assert (again.code, again.err) == (1, "tidegate: backfill 1 is cancelled: it cannot be cancelled\n")
    assert re.search(r"because        cancelled by \S+ at ", (await cli("backfills", "show", "1")).out)
    assert (await cli("backfills", "delete", "1", "--yes")).out == "deleted backfill 1\n"
    assert (await cli("backfills", "list", "--json")).json == []
    assert [row["deleted"] for row in (await cli("backfills", "list", "--deleted", "--json")).json] == [True]
    assert "cancelled, deleted" in (await cli("backfills", "list", "--deleted")).out
    assert "state          cancelled, deleted" in (await cli("backfills", "show", "1")).out


async def test_the_tasks_of_the_page_work(cli: Cli, daily: History) -> None:
    """After each command the daemon does its part, so that runs end that are killed."""
    page = ROOT / "daemon/docs/backfills.md"
    mend, stop, end, extend = (steps(block) for block in blocks("console") if block.page == page)
    await cli("backfills", "create", "daily", *JANUARY, "--max-active-runs", "1", "--max-failed-runs", "1")
    await daily.backfilled()
    await cli("runs", "cancel", "daily", "backfill__2013-01-01T06:00:00+00:00")
    await daily.backfilled()

    for step in (*mend, *stop, *end, *extend):
        for args in calls(step.command, "tidegate"):
            answer = await cli(*args)
            assert answer.code == 0, answer
            await daily.backfilled()

    assert "It has 25 dates more, up to 2013-01-31" in answer.out


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        pytest.param(("create", "daily"), 2, "give either --from and --to, or --date", id="no dates"),
        pytest.param(("create", "daily", "--from", "2013-01-01"), 2, "--to: give --from and --to, or --date", id="no end"),
        pytest.param(("create", "daily", *JANUARY, "--date", "2013-01-01"), 2, "give either", id="a range and a list"),
        pytest.param(
            ("create", "daily", "--from", "2013-01-02", "--to", "2013-01-01"),
            2,
            "the last date is before the first",
            id="no range",
        ),
        pytest.param(
            ("create", "daily", *JANUARY, "--max-active-runs", "0"),
            2,
            "--max-active-runs: write a whole number from 1 to 1000",
            id="a limit of 0",
        ),
        pytest.param(("create", "daily", *JANUARY, "--share", "0"), 2, "--share: write a percentage above 0", id="a share of 0"),
        pytest.param(("create", "daily", *JANUARY, "--conf", "1"), 2, "write a JSON object", id="a conf that is no object"),
        pytest.param(
            ("create", "daily", *JANUARY, "--conf", '{"n": "x"}'), 1, "the conf does not fit", id="a conf that does not fit"
        ),
        pytest.param(
            ("create", "daily", *JANUARY, "--conf", '{"nn": 1}'), 1, "there is no param 'nn'", id="a conf with another key"
        ),
        pytest.param(
            ("create", "daily", *JANUARY, "--conf", '{"n": "\\u0000"}'), 2, "has the character NUL", id="a conf with NUL"
        ),
        pytest.param(("dates", "1", "--after", str(2**31)), 2, "invalid value for '--after'", id="a date out of range"),
        pytest.param(("create", "daily", *JANUARY, "--description", "x" * 1001), 2, "at most 1000 characters", id="a long text"),
        pytest.param(("create", "nothing", *JANUARY), 1, "there is no DAG 'nothing'", id="no DAG"),
        pytest.param(
            ("create", "daily", "--from", "2113-01-01", "--to", "2113-01-02"), 1, "has no date from 2113", id="the future"
        ),
        pytest.param(
            ("create", "daily", "--date", "2013-01-02", "--dry-run"),
            1,
            "its timetable has 2013-01-01 06:00:00Z before it and 2013-01-02 06:00:00Z after it; list one of these dates",
            id="no tick",
        ),
        pytest.param(("show", "9"), 1, "there is no backfill 9; `tidegate backfills list` shows all", id="no backfill"),
        pytest.param(("pause", str(10**30)), 2, "invalid value for 'ID'", id="a long number"),
        pytest.param(("set", "9"), 2, "give a limit, or --to", id="no change"),
        pytest.param(("set", "9", "--share", "1"), 1, "there is no backfill 9", id="a change of none"),
        pytest.param(("list", "nothing"), 1, "there is no DAG 'nothing'", id="a list of no DAG"),
    ],
)
async def test_what_cannot_be_done_is_said(cli: Cli, daily: History, args: tuple[str, ...], code: int, said: str) -> None:
    answer = await cli("backfills", *args)

    assert (answer.code, answer.out) == (code, "")
    assert said in answer.err
    assert await daily.database.run(backfill_pages.list_backfills, limit=10) == []


async def test_a_limit_out_of_range_is_refused(cli: Cli, daily: History) -> None:
    await cli("backfills", "create", "daily", *JANUARY)

    too_much = await cli("backfills", "set", "1", "--share", "101")
    nothing = await cli("backfills", "set", "1", "--share", "0")

    none = await cli("backfills", "set", "1", "--max-active-runs", "none")

    assert [answer.code for answer in (too_much, nothing, none)] == [2, 2, 1]
    assert all("--share: write a percentage above 0 and up to 100" in answer.err for answer in (too_much, nothing))
    assert none.err == "tidegate: max_active_runs is out of range: write a whole number from 1 to 1000\n"


async def test_only_an_editor_of_a_dag_may_create_one(cli: Cli, daily: History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_EDITORS", '{"dai*": ["nobody-here"]}')

    answer = await cli("backfills", "create", "daily", *JANUARY)

    assert answer.code == 1
    assert "may not change backfills of DAG 'daily'; TIDEGATE_EDITORS names the users that may" in answer.err
    found: list[Any] = await daily.database.pool.fetch("SELECT what, object, details FROM audit_log")
    assert [(what, object_) for what, object_, _ in found] == [("was refused", "DAG daily")]
    assert found[0][2]["would_have"] == "created a backfill"
    assert "TIDEGATE_EDITORS" in found[0][2]["reason"]
    monkeypatch.setenv("TIDEGATE_EDITORS", "no JSON")
    assert (await cli("backfills", "create", "daily", *JANUARY)).code == 2


CASCADE = """
from tidegate import Dag, Dataset, cron
with Dag("first", schedule=cron("0 6 * * *"), run_immediately=False) as dag:
    dag.command("load", ["true"], outlets=[Dataset("lake://first")])
with Dag("second", schedule=Dataset("lake://first")) as dag:
    dag.empty("done")
"""


async def test_a_dry_run_says_that_consumers_keep_what_they_have_read(cli: Cli, daily: History) -> None:
    await daily.file(CASCADE, "cascade.py")
    await cli("runs", "trigger", "first", "--logical-date", "2013-01-02T06:00", "--run-id", "mine")
    await daily.clock("first")
    await daily.worked()
    asked = ("backfills", "create", "first", *JANUARY, "--dry-run")

    again, untouched = await cli(*asked, "--reprocess", "completed"), await cli(*asked)

    said = "Runs of second that consumed what is rewritten stay as they are; outlets=cascade runs them again."
    assert (said in again.err, said in untouched.err) == (True, False)


async def test_only_an_editor_of_all_dags_of_a_cascade_may_change_it(
    cli: Cli, daily: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    await daily.file(CASCADE, "cascade.py")
    asked = ("create", "first", *JANUARY, "--reprocess", "completed", "--outlets", "cascade")
    assert "Runs of second that consumed what is rewritten" in (await cli("backfills", *asked, "--dry-run")).err
    await cli("backfills", *asked)
    monkeypatch.setenv("TIDEGATE_EDITORS", '{"second": ["nobody-here"]}')

    answers = [await cli("backfills", *args) for args in (("pause", "1"), ("set", "1", "--share", "50"))]

    assert [answer.code for answer in answers] == [1, 1]
    assert all("may not change backfills of DAG 'second'" in answer.err for answer in answers)


async def test_a_backfill_of_a_paused_dag_says_so(cli: Cli, daily: History) -> None:
    await cli("dags", "pause", "daily")
    await cli("backfills", "create", "daily", *JANUARY)
    await daily.backfilled()

    assert "DAG daily is paused; `tidegate dags why-not daily`" in (await cli("backfills", "show", "1")).out


async def test_a_cascade_says_that_the_dag_of_its_stage_is_paused(cli: Cli, daily: History) -> None:
    """Of two DAGs that keep it waiting the first one is named, which comes first again after a retry."""
    await daily.file(CASCADE, "cascade.py")
    await cli("backfills", "create", "first", *JANUARY, "--reprocess", "completed", "--outlets", "cascade")
    await cli("dags", "pause", "second")
    before = (await cli("backfills", "show", "1")).out
    await daily.database.pool.execute("UPDATE backfill SET stage = 1")

    shown = (await cli("backfills", "show", "1")).out
    await cli("dags", "pause", "first")

    assert "is paused" not in before
    assert "DAG second is paused; `tidegate dags why-not second` says what to do" in shown
    assert "DAG first is paused; `tidegate dags why-not first`" in (await cli("backfills", "show", "1")).out


async def test_a_run_that_waits_for_its_backfill_says_so(cli: Cli, daily: History) -> None:
    await cli("backfills", "create", "daily", *JANUARY, "--max-active-tasks", "1", "--max-active-runs", "2")
    await daily.backfilled()
    await daily.admitted()

    answer = await cli("tasks", "why-not", "daily", "backfill__2013-01-02T06:00:00+00:00", "first")
    waiting = (await cli("backfills", "dates", "1", "--after", "1", "--json")).json[0]["reason"]
    await cli("dags", "pause", "daily")
    paused = (await cli("backfills", "dates", "1", "--after", "1", "--json")).json[0]["reason"]

    assert waiting.startswith("task first waits for the rest of backfill 1: its max_active_tasks is 1")
    assert paused.startswith("task first waits for the DAG to be unpaused; the rest of backfill 1: its max_active_tasks is 1")
    assert "the rest of backfill 1: its max_active_tasks is 1" in answer.out
    assert "tidegate backfills set 1 --max-active-tasks 2" in answer.out


async def test_a_date_that_waits_for_a_failed_one_says_so(cli: Cli, daily: History) -> None:
    await daily.file(DAILY.replace('"first", ["true"]', '"first", ["true"], depends_on_past=True'))
    await cli("backfills", "create", "daily", *JANUARY, "--reprocess", "failed", "--max-active-runs", "2")
    await daily.backfilled()
    await cli("runs", "cancel", "daily", "backfill__2013-01-01T06:00:00+00:00")
    await daily.backfilled()

    page = (await cli("backfills", "show", "1")).out
    answer = await cli("tasks", "why-not", "daily", "backfill__2013-01-02T06:00:00+00:00", "first")

    assert "2 of its runs wait for earlier dates, of which 1 failed; `tidegate backfills retry 1` runs these again" in page
    assert "waits for  the previous run, backfill__2013-01-01T06:00:00+00:00" in answer.out


async def test_a_retry_may_have_the_newest_version(cli: Cli, daily: History) -> None:
    await cli("backfills", "create", "daily", *JANUARY, "--max-active-runs", "1", "--max-failed-runs", "1")
    await daily.backfilled()
    await cli("runs", "cancel", "daily", "backfill__2013-01-01T06:00:00+00:00")
    await daily.backfilled()
    await daily.file(DAILY.replace('"second"', '"third"'))

    older = await cli("backfills", "retry", "1")
    extended = await cli("backfills", "set", "1", "--to", "2013-01-08")
    await daily.backfilled()
    await cli("runs", "cancel", "daily", "backfill__2013-01-01T06:00:00+00:00")
    await daily.backfilled()
    answer = await cli("backfills", "retry", "1", "--newest-version")

    assert "retries backfill 1 with version 1 of daily; the newest is version 2 (--newest-version).\n" in older.out
    assert "It has 2 dates more, up to 2013-01-08 23:59:59Z, with version 1 of daily; the newest is version 2." in extended.out
    assert answer == (0, "retries backfill 1 with version 2 of daily.\n", "")
    (row,) = (await cli("backfills", "list", "--json")).json
    assert (row["version"], row["state"]) == (2, "running")


async def test_a_backfill_is_shown_and_cancelled_while_its_version_cannot_be_read(cli: Cli, daily: History) -> None:
    await cli("backfills", "create", "daily", *JANUARY)
    await daily.backfilled()
    await daily.database.pool.execute("""UPDATE dag_version SET spec = '{"dag_id": 7}'""")
    await daily.database.pool.execute("UPDATE dag SET held_since = now(), hold_reason = 'x'")
    daily.database.clear_memory()

    shown, cancelled = await cli("backfills", "show", "1"), await cli("backfills", "cancel", "1", "--kill")
    await daily.backfilled()

    assert "DAG daily is held; `tidegate dags why-not daily` says what to do" in shown.out
    assert cancelled.out.startswith("cancelled backfill 1. Its queued runs fail, ")
    assert [row["state"] for row in (await cli("backfills", "list", "--json")).json] == ["cancelled"]
