"""`tidegate runs trigger` on a real database."""

from datetime import UTC, datetime
from typing import Any

import anyio
import asyncpg
import pytest
from asyncpg.transaction import Transaction

from tests.integration.cli.conftest import Cli, Printed
from tests.integration.cli.history import History
from tests.integration.cli.sources import SINGLE, TIMED
from tidegate.daemon import conf, runs
from tidegate.events.publisher import Outcome


async def test_a_triggered_run_has_its_conf(cli: Cli, history: History) -> None:
    await history.file(SINGLE)

    answer = await cli("runs", "trigger", "single", "--conf", '{"day": "2013-01-01"}', "--run-id", "fix-1")

    assert answer == (0, "triggered single fix-1\n", "")
    page = (await cli("runs", "show", "single", "fix-1", "--json")).json
    assert (page["conf"], page["run"]["run_type"]) == ({"day": "2013-01-01"}, "manual")


async def test_a_run_without_an_id_is_named_by_the_time(cli: Cli, history: History) -> None:
    await history.file(SINGLE)

    run = (await cli("runs", "trigger", "single", "--json")).json

    assert (datetime.now(UTC) - datetime.fromisoformat(run["run_id"].removeprefix("manual__"))).total_seconds() < 60


async def test_a_run_is_triggered_for_a_date_with_its_data_interval(cli: Cli, history: History) -> None:
    await history.file(TIMED)

    await cli("runs", "trigger", "timed", "--run-id", "a", "--logical-date", "2013-01-02T08:00+01:00")

    run = (await cli("runs", "show", "timed", "a", "--json")).json["run"]
    assert (run["logical_date"], run["data_interval_start"], run["data_interval_end"]) == (
        "2013-01-02T07:00:00Z",
        "2013-01-01T06:00:00Z",
        "2013-01-02T06:00:00Z",
    )
    out = (await cli("runs", "show", "timed", "a")).out
    assert "  logical date   2013-01-02 07:00:00Z\n  data interval  2013-01-01 06:00:00Z to 2013-01-02 06:00:00Z\n" in out


async def test_a_date_that_has_a_run_is_not_triggered_again(cli: Cli, history: History) -> None:
    await history.file(TIMED)
    await cli("runs", "trigger", "timed", "--run-id", "a", "--logical-date", "2013-01-02")

    answer = await cli("runs", "trigger", "timed", "--logical-date", "2013-01-02")

    assert (answer.code, answer.out) == (1, "")
    assert answer.err == "tidegate: DAG 'timed' already has run 'a' for 2013-01-02T00:00:00+00:00; clear that one\n"


async def test_a_run_of_later_is_queued_until_then(cli: Cli, history: History) -> None:
    await history.file(SINGLE)

    answer = await cli("runs", "trigger", "single", "--run-id", "a", "--run-after", "2040-01-01T00:00")

    assert answer == (0, "triggered single a\n", "it is queued: it may start at 2040-01-01 00:00:00Z\n")


@pytest.mark.parametrize("option", ["--logical-date", "--run-after"])
async def test_a_date_that_cannot_be_one_is_wrong_usage(cli: Cli, history: History, option: str) -> None:
    await history.file(SINGLE)

    answer = await cli("runs", "trigger", "single", option, "soon")

    assert answer.code == 2
    assert "write a date or a time like 2013-01-31" in answer.err


async def test_a_triggered_run_wakes_the_daemons(cli: Cli, history: History, dsn: str) -> None:
    await history.file(SINGLE)
    heard: list[object] = []
    listener = await asyncpg.connect(dsn)
    await listener.add_listener("tidegate", lambda *said: heard.append(said[3]))

    await cli("runs", "trigger", "single")

    await listener.execute("SELECT 1")
    await listener.close()
    assert [set(str(said).split(",")) for said in heard] == [{"ADMIT", "RELAY"}]


async def test_the_same_run_is_not_made_twice(cli: Cli, history: History) -> None:
    await history.file(SINGLE)
    await cli("runs", "trigger", "single", "--run-id", "a")

    answer = await cli("runs", "trigger", "single", "--run-id", "a", "--json")

    assert answer == (1, "", "tidegate: DAG 'single' already has a run 'a'\n")


async def test_a_run_of_a_paused_dag_says_that_it_waits(cli: Cli, history: History) -> None:
    await history.file(SINGLE)
    await cli("dags", "pause", "single")

    answer = await cli("runs", "trigger", "single", "--run-id", "a")

    assert (answer.code, answer.out) == (0, "triggered single a\n")
    assert answer.err == "it is queued: the DAG is paused, in no DAG file, or at its limit of active runs\n"


@pytest.mark.parametrize("conf", ["[1]", "{", '"x"', "{1: 2}", "[" * 100_000])
async def test_a_conf_that_is_no_object_is_wrong_usage(cli: Cli, history: History, conf: str) -> None:
    await history.file(SINGLE)

    answer = await cli("runs", "trigger", "single", "--conf", conf)

    assert answer.code == 2
    assert answer.err.startswith("tidegate: invalid value for --conf: write a JSON object")
    assert (await cli("runs", "list", "--json")).json == []


async def test_a_conf_that_the_dag_does_not_take_is_one_sentence(cli: Cli, history: History) -> None:
    await history.file('from tidegate import Dag, Param\nwith Dag("asked", params={"day": Param(type="string")}): pass\n')

    answer = await cli("runs", "trigger", "asked", "--conf", '{"day": 3}')
    misspelt = await cli("runs", "trigger", "asked", "--conf", '{"dya": "x"}')

    assert answer == (
        1,
        "",
        "tidegate: the conf does not fit DAG 'asked': param 'day': 3 is not of type 'string'; write a value of the type string\n",
    )
    absent = "param 'day' has no default and must be given"
    problems = f"  there is no param 'dya'; did you mean day?\n  {absent}\n"
    assert misspelt == (1, "", f"tidegate: the conf does not fit DAG 'asked':\n{problems}")


async def test_a_conf_whose_check_takes_for_ever_is_refused_and_locks_nothing(
    cli: Cli, history: History, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conf, "CPU_S", 1)
    monkeypatch.setattr(conf, "WALL_S", 200.0)  # others may have the processors
    await history.file('from tidegate import Dag, Param\nwith Dag("asked", params={"day": Param(pattern="^(a+)+$")}): pass\n')
    locked, begin = [], anyio.run_process

    async def check(*args: Any, **options: Any) -> Any:
        db = await asyncpg.connect(dsn)
        locked.append(await db.execute("SELECT FROM dag FOR UPDATE NOWAIT"))
        await db.close()
        return await begin(*args, **options)

    monkeypatch.setattr(anyio, "run_process", check)
    answer = await cli("runs", "trigger", "asked", "--conf", '{"day": "%sb"}' % ("a" * 60))

    assert locked == ["SELECT 1"]
    problem = "its check had no result within 1 s; make its schemas simpler, a pattern for instance"
    assert answer == (1, "", f"tidegate: the conf does not fit DAG 'asked': {problem}\n")


class LostAnswer:
    """The first commit after a request was decided has no answer: Postgres stores it, or not."""

    def __init__(self, *, stores: bool) -> None:
        self._commit, self._stores, self._is_lost = Transaction.__aexit__, stores, False

    async def __call__(self, transaction: Any, kind: Any, error: Any, trace: Any) -> None:
        writes = await transaction._connection.fetchval("SELECT pg_current_xact_id_if_assigned() IS NOT NULL")
        if writes and not self._is_lost and not self._stores:
            kind, error = ConnectionResetError, ConnectionResetError()
        await self._commit(transaction, kind, error, trace)
        if writes and not self._is_lost:
            self._is_lost = True
            raise ConnectionResetError("no answer")


def lose_answer(monkeypatch: pytest.MonkeyPatch, *, stores: bool) -> None:
    lost = LostAnswer(stores=stores)

    async def exit_(transaction: Transaction, *args: Any) -> None:
        await lost(transaction, *args)

    monkeypatch.setattr(Transaction, "__aexit__", exit_)
    monkeypatch.setattr(runs, "PAUSES_S", (0.0, 0.0))


async def test_a_run_whose_commit_has_no_answer_is_looked_for(
    cli: Cli, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    await history.file(SINGLE)

    lose_answer(monkeypatch, stores=True)

    assert await cli("runs", "trigger", "single", "--run-id", "a") == (0, "triggered single a\n", "")


async def test_a_run_that_is_not_found_after_its_commit_is_named(
    cli: Cli, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    await history.file(SINGLE)
    lose_answer(monkeypatch, stores=False)

    answer = await cli("runs", "trigger", "single", "--run-id", "a")

    assert (answer.code, answer.out) == (3, "")
    assert answer.err.startswith("tidegate: run a may be started, but is not found: DAG 'single' has no run 'a'")
    assert answer.err.endswith("; repeat it with this run id: no run starts twice\n")


async def test_a_change_whose_commit_has_no_answer_may_be_done(
    cli: Cli, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    await history.file(SINGLE)
    await cli("runs", "trigger", "single", "--run-id", "a")
    lose_answer(monkeypatch, stores=True)

    answer = await cli("runs", "cancel", "single", "a")

    assert (answer.code, answer.out) == (3, "")
    assert answer.err.startswith("tidegate: Postgres is not available: no answer; the change may be done all the same")


@pytest.mark.parametrize("run_id", ["", "a b", "a/b", "a\n", "latest", "x" * 251, "é"])
async def test_a_run_id_that_cannot_be_one_is_wrong_usage(cli: Cli, history: History, run_id: str) -> None:
    await history.file(SINGLE)

    answer = await cli("runs", "trigger", "single", "--run-id", run_id)

    assert answer.code == 2
    assert (await cli("runs", "list", "--json")).json == []


async def test_a_run_is_followed_to_its_end(cli: Cli, printed: Printed, history: History) -> None:
    await history.file(SINGLE)

    async with anyio.create_task_group() as tg:
        tg.start_soon(_end_the_only_attempt, printed, history, "succeeded")
        answer = await cli("runs", "trigger", "single", "--wait", "--json")

    assert (answer.code, answer.json["state"]) == (0, "success")
    assert [line.split("Z  ")[1] for line in answer.err.splitlines()] == [
        "running, 0 of 1 tasks ended",
        "success, 1 of 1 tasks ended",
    ]


async def test_a_followed_run_that_fails_says_why(cli: Cli, printed: Printed, history: History) -> None:
    await history.file(SINGLE)

    async with anyio.create_task_group() as tg:
        tg.start_soon(_end_the_only_attempt, printed, history, "failed")
        answer = await cli("runs", "trigger", "single", "--wait", "--run-id", "a")

    assert (answer.code, answer.out) == (1, "triggered single a\n")
    assert answer.err.splitlines()[-1] == "task only failed: exit code 1: boom"


async def _end_the_only_attempt(printed: Printed, history: History, outcome: Outcome) -> None:
    """Once the run is followed."""
    await printed.until_said("running")
    (begun,) = await history.attempts_begin()
    await history.attempt_ends(begun.submission_id, outcome, "exit code 1: boom" if outcome == "failed" else "")
