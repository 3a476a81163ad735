"""The past of a DAG: its calendar, and how long runs took."""

import re
from http import HTTPStatus

import pytest

from tests.integration.cli.conftest import Cli, cli, printed
from tests.integration.cli.history import DAILY
from tests.integration.web.conftest import Site, page
from tidegate.daemon.read_model import history

__all__ = ["cli", "printed"]

RUNS = """
INSERT INTO dag_run (
    dag_id, run_id, run_type, state, version_id, run_after, logical_date, state_seq, unfinished, start_date, end_date
)
SELECT
    dag_id, 'r' || n, 'scheduled', (CASE WHEN n = 3 THEN 'failed' ELSE 'success' END)::run_state, version_id, at, at, 1, 0,
    at, at + make_interval(mins => n)
FROM dag, generate_series(1, 5) AS n, make_timestamptz(2024, 12, 28, 6, 0, 0, 'UTC') AS begin, LATERAL (
    SELECT begin + make_interval(days => n) AS at
) AS run
"""


async def test_the_calendar_shows_the_worst_of_each_day_and_leads_to_its_runs(site: Site) -> None:
    await site.history.file()
    await site.history.database.pool.execute(RUNS)

    text = await page(site, "/dags/daily_delays/history")
    before = await page(site, "/dags/daily_delays/history", year="2024")
    without = await page(site, "/dags/daily_delays/history", year="2020")

    assert re.findall(r'at=(2025-\d\d-\d\d)"><title>\S+ (.*?)</title>', text) == [
        ("2025-01-01", "1 success"),
        ("2025-01-02", "1 success"),
    ]
    assert re.findall(r'at=(2024-\d\d-\d\d)"><title>\S+ (.*?)</title>', before)[2] == ("2024-12-31", "1 failed")
    assert "It had no run in 2020" in without
    assert "/dags/daily_delays/history" in await page(site, "/dags/daily_delays")


IN_AUCKLAND = (
    'from tidegate import Dag\nwith Dag("daily_delays", schedule="0 6 * * *", timezone="Pacific/Auckland") as dag: pass\n'
)


async def test_the_days_are_those_of_the_zone_of_the_dag(site: Site, cli: Cli) -> None:
    """The runs at 12:00 in UTC have begun the next day there, 13 hours ahead."""
    await site.history.file(IN_AUCKLAND)
    await site.history.database.pool.execute(RUNS.replace("6, 0, 0, 'UTC'", "12, 0, 0, 'UTC'"))

    text = await page(site, "/dags/daily_delays/history")
    of_day = await page(site, "/dags/daily_delays", at="2025-01-01")
    command = await cli("dags", "history", "daily_delays", "--year", "2025")
    by_api = (await cli("dags", "history", "daily_delays", "--json")).json

    assert "the days are those of Pacific/Auckland\n" in command.err
    assert (by_api["timezone"], by_api["days"]["2025-01-01"]) == ("Pacific/Auckland", {"failed": 1})
    days = re.findall(r'at=(2025-\d\d-\d\d)"><title>\S+ (.*?)</title>', text)
    assert days == [("2025-01-01", "1 failed"), ("2025-01-02", "1 success"), ("2025-01-03", "1 success")]
    assert "by their logical dates, in Pacific/Auckland" in text
    assert set(re.findall(r"/runs/(r\d)", of_day)) - {"r5"} == {"r1", "r2", "r3"}  # the page names the newest one, too


@pytest.mark.parametrize(("counted", "is_cut"), [(1, True), (2, False)])
async def test_a_calendar_says_that_it_lacks_runs_only_if_it_does(
    site: Site, monkeypatch: pytest.MonkeyPatch, counted: int, *, is_cut: bool
) -> None:
    monkeypatch.setattr(history, "COUNTED", counted)
    await site.history.file()
    await site.history.database.pool.execute(RUNS)

    text = await page(site, "/dags/daily_delays/history", year="2025")

    assert ("the oldest runs of the year are not counted" in text) is is_cut


async def test_the_chart_has_a_bar_for_each_run(site: Site) -> None:
    await site.history.file()
    await site.history.database.pool.execute(RUNS)

    text = await page(site, "/dags/daily_delays/history", runs="3")
    (address,) = re.findall(r'href="(/dags/daily_delays/history\?before[^"]*)"', text)
    older = await page(site, address.replace("&amp;", "&"))

    assert re.findall(r"<title>(r\d: \w+, \w+)</title>", text) == [
        "r3: failed, 3m00s",
        "r4: success, 4m00s",
        "r5: success, 5m00s",
    ]
    assert re.findall(r"<title>(r\d)", older) == ["r1", "r2"]
    assert 'class="usual"' in text


async def test_a_dag_without_runs_and_an_unknown_one_say_so(site: Site, cli: Cli) -> None:
    await site.history.file()
    async with site.browser() as client:
        unknown = await client.get("/dags/none/history")

    assert "There is no run yet" in await page(site, "/dags/daily_delays/history")
    assert (unknown.status_code, "there is no DAG" in unknown.text) == (HTTPStatus.NOT_FOUND, True)
    assert "it had no run in" in (await cli("dags", "history", "daily_delays")).err
    assert "there is no DAG 'none'" in (await cli("dags", "history", "none")).err


async def test_the_command_shows_the_same_days(site: Site, cli: Cli) -> None:
    await site.history.file()
    await site.history.database.pool.execute(RUNS)

    answer = await cli("dags", "history", "daily_delays", "--year", "2024")
    document = (await cli("dags", "history", "daily_delays", "--json")).json

    assert answer.rows[0] == ["DAY", "RUNS", "SUCCESS", "FAILED", "RUNNING", "QUEUED"]
    assert answer.rows[-1] == ["2024-12-31", "1", "0", "1", "0", "0"]
    assert document["days"] == {"2025-01-01": {"success": 1}, "2025-01-02": {"success": 1}}
    assert [run["run_id"] for run in document["runs"]] == ["r1", "r2", "r3", "r4", "r5"]


async def test_names_of_runs_are_no_html(site: Site) -> None:
    await site.history.file(DAILY)
    await site.history.database.pool.execute(RUNS.replace("'r' || n", "'<script>alert(1)</script>' || n"))

    assert "<script>alert" not in await page(site, "/dags/daily_delays/history")
