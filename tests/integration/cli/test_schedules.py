"""Next runs in `tidegate dags`."""

from tests.integration.cli.conftest import Cli
from tests.integration.cli.history import History
from tests.integration.cli.schedules import NIGHTLY, PAST, WHEN_ASKED


async def test_a_list_of_dags_says_what_starts_them_and_when_next(cli: Cli, history: History) -> None:
    await history.file(NIGHTLY, "nightly.py")
    await history.file(WHEN_ASKED, "why.py")

    lines = (await cli("dags", "list")).out.splitlines()

    assert "  lake://flights, or cron 0 3 * * * Europe/Zurich  2040-03-24 02:00:00Z  nightly.py" in lines[1]
    assert lines[2].split()[-3:] == ["-", "-", "why.py"]


async def test_the_next_run_in_a_list_follows_the_last_one(cli: Cli, history: History) -> None:
    await history.file(PAST)

    first = (await cli("dags", "list", "--json")).json
    await history.clock("past")
    second = (await cli("dags", "list", "--json")).json

    assert [dag["next_run"]["run_after"] for dag in (*first, *second)] == ["2013-01-01T06:00:00Z", "2013-01-02T06:00:00Z"]
    assert second[0]["timetable"] == {
        "kind": "cron",
        "expressions": ["0 6 * * *"],
        "timezone": "UTC",
        "mode": "trigger",
        "interval_s": 0.0,
    }


async def test_a_paused_dag_has_no_next_run(cli: Cli, history: History) -> None:
    await history.file(PAST)
    await cli("dags", "pause", "past")

    (dag,) = (await cli("dags", "list", "--json")).json

    assert dag["next_run"] is None


async def test_a_shown_dag_says_all_about_its_time_and_limits(cli: Cli, history: History) -> None:
    await history.file(NIGHTLY)

    out = (await cli("dags", "show", "nightly")).out

    for fact in (
        "  timetable     cron 0 3 * * * Europe/Zurich\n",
        "  start date    2040-03-24 00:00:00Z\n",
        "  end date      2040-12-31 00:00:00Z\n",
        "  catchup       on: every missed run is started\n",
        "  runs          0 running, 0 queued, at most 16 at a time\n",
        "  tasks         of each run at most 4 at a time\n",
        "  run timeout   2h00m\n",
        "  paused after  3 failed runs in a row\n",
        "  fail fast     the first task that fails ends its run\n",
        "\nnext runs\nLOGICAL DATE          RUN AFTER             LOGICAL DATE IN Europe/Zurich  ",
        "alarm  command  first (one_failed)  0",
    ):
        assert fact in out


async def test_a_shown_dag_in_json_has_its_next_runs(cli: Cli, history: History) -> None:
    await history.file(NIGHTLY)

    page = (await cli("dags", "show", "nightly", "--json")).json

    assert page["spec"]["timetable"]["timezone"] == "Europe/Zurich"
    assert [run["run_after"] for run in page["next_runs"]] == [
        "2040-03-24T02:00:00Z",
        "2040-03-25T01:00:00Z",
        "2040-03-26T01:00:00Z",
    ]


async def test_a_shown_dag_has_its_params(cli: Cli, history: History) -> None:
    params = '{"day": Param(type="string"), "limit": 3}'
    await history.file(f'from tidegate import Dag, Param\nwith Dag("asked", params={params}): pass\n')

    out = (await cli("dags", "show", "asked")).out

    assert 'PARAM  DEFAULT        SCHEMA\nday    must be given  {"type":"string"}\nlimit  3              -\n' in out


async def test_a_dag_that_is_only_asked_for_shows_no_time(cli: Cli, history: History) -> None:
    await history.file(WHEN_ASKED)

    out = (await cli("dags", "show", "when_asked")).out

    assert "timetable" not in out
    assert "next runs" not in out
