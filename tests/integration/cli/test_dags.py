"""`tidegate dags` on a real database."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.integration.cli.conftest import Cli
from tests.integration.cli.history import History


async def test_dags_are_listed_with_what_they_wait_for(cli: Cli, history: History) -> None:
    await history.file()
    await history.updated("lake://flights")

    answer = await cli("dags", "list")

    assert answer.rows == [
        ["DAG", "STATE", "VERSION", "RUNNING", "QUEUED", "PENDING", "SCHEDULE", "NEXT", "FILE"],
        ["daily_delays", "active", "1", "0", "0", "1", "lake://flights", "&", "lake://weather", "-", "daily.py"],
    ]


async def test_an_empty_list_is_an_empty_array(cli: Cli) -> None:
    answer = await cli("dags", "list", "--json")

    assert (answer.code, answer.json, answer.err) == (0, [], "")


async def test_broken_files_are_spoken_of_beside_the_list(cli: Cli, history: History) -> None:
    await history.broken_file("bad.py", "SyntaxError: invalid syntax", 3)

    answer = await cli("dags", "list", "--json")

    assert (answer.json, answer.err) == ([], "1 DAG file is broken; `tidegate dags errors` says why\n")


async def test_broken_files_are_listed_with_line_and_reason(cli: Cli, history: History) -> None:
    await history.broken_file("bad.py", "SyntaxError: invalid syntax", 3)
    await history.broken_file("worse.py", "it calls os._exit")

    answer = await cli("dags", "errors")

    assert (answer.code, answer.out) == (1, "bad.py:3: SyntaxError: invalid syntax\nworse.py: it calls os._exit\n")
    assert (await cli("dags", "errors", "--json")).code == 1


async def test_without_a_broken_file_the_list_succeeds(cli: Cli) -> None:
    assert await cli("dags", "errors") == (0, "", "no DAG file is broken\n")


MANY = """
    INSERT INTO dataset_dag_run_queue (target_dag_id, dataset_id, dataset_event_id)
    SELECT 'daily_delays', id, number FROM dataset, generate_series(1, 10002) AS number WHERE uri = 'lake://flights'
"""


async def test_pending_events_of_a_dag_are_counted_up_to_a_bound(cli: Cli, history: History) -> None:
    await history.file()
    await history.database.pool.execute(MANY)

    answer = await cli("dags", "list")
    (dag,) = (await cli("dags", "list", "--json")).json

    shown = await cli("dags", "show", "daily_delays")
    (pending,) = (await cli("dags", "show", "daily_delays", "--json")).json["pending"]

    assert answer.rows[1][5] == "10,000+"
    assert dag["pending"] == pending["events"] == 10_001
    assert "10,000+ events, the oldest pending for " in shown.out


async def test_an_event_is_pending_since_its_arrival(cli: Cli, history: History) -> None:
    await history.file()
    await history.updated("lake://flights", occurred_at=datetime.now(UTC) - timedelta(hours=3))

    answer = await cli("dags", "show", "daily_delays")

    assert "lake://flights (1 event pending for 0s)\n" in answer.timeless


async def test_a_dag_is_shown_with_what_is_pending_and_what_is_missing(cli: Cli, history: History) -> None:
    await history.file()
    await history.updated("lake://flights")

    answer = await cli("dags", "show", "daily_delays")

    assert "○ all of\n├── ✓ lake://flights (1 event pending for 0s)\n└── ○ lake://weather (nothing pending)\n" in answer.timeless
    assert ["report", "sql", "join", "0", "lake://delays"] in answer.rows


async def test_a_shown_dag_is_one_json_object(cli: Cli, history: History) -> None:
    await history.file()
    await history.run()
    await history.updated("lake://flights", "f-2")

    page = (await cli("dags", "show", "daily_delays", "--json")).json

    assert page["dag"]["dag_id"] == page["spec"]["dag_id"] == page["runs"][0]["dag_id"] == "daily_delays"
    assert [(row["uri"], row["events"]) for row in page["pending"]] == [("lake://flights", 1)]


async def test_a_paused_dag_is_listed_as_paused_until_it_is_unpaused(cli: Cli, history: History) -> None:
    await history.file()

    paused = await cli("dags", "pause", "daily_delays")
    while_paused = await cli("dags", "list")
    await cli("dags", "unpause", "daily_delays")
    afterwards = await cli("dags", "list")

    assert paused.out == "paused daily_delays\n"
    assert (while_paused.rows[1][1], afterwards.rows[1][1]) == ("paused", "active")


async def test_unpausing_starts_the_runs_that_wait(cli: Cli, history: History) -> None:
    await history.file()
    await cli("dags", "pause", "daily_delays")
    await cli("runs", "trigger", "daily_delays", "--run-id", "held")

    answer = await cli("dags", "unpause", "daily_delays", "--json")

    assert answer.json == {"dag_id": "daily_delays", "is_paused": False}
    assert [run["state"] for run in (await cli("runs", "list", "--json")).json] == ["running"]


@pytest.mark.parametrize("verb", ["show", "pause", "unpause"])
async def test_a_dag_that_does_not_exist_is_one_sentence(cli: Cli, verb: str) -> None:
    answer = await cli("dags", verb, "nope", "--json")

    assert (answer.code, answer.out) == (1, "")
    assert answer.err == "tidegate: there is no DAG 'nope'; `tidegate dags list` shows all\n"


async def test_a_dag_that_may_be_in_a_broken_file_is_looked_for_there(cli: Cli, history: History) -> None:
    await history.broken_file("bad.py", "SyntaxError: invalid syntax", 3)

    answer = await cli("dags", "show", "bad")

    all_of_them = "`tidegate dags list` shows all; 1 DAG file is broken; `tidegate dags errors` says why"
    assert answer == (1, "", f"tidegate: there is no DAG 'bad'; {all_of_them}\n")


async def test_a_dag_that_is_in_no_file_any_more_can_be_deleted(cli: Cli, history: History) -> None:
    await history.file()
    await history.file("")

    unsure = await cli("dags", "delete", "daily_delays")
    sure = await cli("dags", "delete", "daily_delays", "--yes")

    assert (unsure.code, "add --yes" in unsure.err) == (2, True)
    assert sure == (0, "deleted daily_delays\n", "")
    assert (await cli("dags", "list", "--json")).json == []


async def test_a_dag_that_is_in_a_file_cannot_be_deleted(cli: Cli, history: History) -> None:
    await history.file()

    answer = await cli("dags", "delete", "daily_delays", "--yes", "--json")

    assert (answer.code, "is still in a DAG file" in answer.err) == (1, True)


CLOSER = """
from datetime import timedelta
from tidegate import Dag, Dataset, DatasetPattern, Timed, n_of

flights, days = Dataset("lake://flights", where="rows > 0"), DatasetPattern("lake://days/*", expire_after=timedelta(hours=6))
two = n_of(2, flights, days, Dataset("lake://c"))
with Dag("closer", schedule=Timed(two, within=timedelta(hours=1)), on_paused="keep") as dag:
    dag.empty("done")
"""


async def test_a_condition_is_drawn_with_what_waits_for_each_of_its_inputs(cli: Cli, history: History) -> None:
    await history.file(CLOSER)
    await history.updated("lake://flights", "1", {"rows": 0})
    await history.updated("lake://days/1", "2")

    answer = await cli("dags", "show", "closer")

    assert (
        "○ 2 of\n├── ○ lake://flights where rows > 0 (nothing pending)\n"
        "├── ✓ lake://days/* expires after 6h00m (1 event pending for 0s)\n└── ○ lake://c (nothing pending)\n"
        "counted all within 1h00m of each other\n"
    ) in answer.timeless
    assert "while paused" in answer.out
    page = (await cli("dags", "show", "closer", "--json")).json
    assert [(row["input"], row["events"]) for row in page["inputs"]] == [
        ("lake://flights[rows > 0]", 0),
        ("lake://days/*", 1),
        ("lake://c", 0),
    ]


async def test_a_condition_that_cannot_be_read_is_said_on_the_page_of_its_dag(cli: Cli, history: History) -> None:
    await history.file(CLOSER)
    broken = "UPDATE dag_version SET spec = jsonb_set(spec, '{schedule,of,0,where}', '\"rows >\"')"
    await history.database.pool.execute(broken)
    history.database.memory.graphs.clear()
    await history.updated("lake://flights", "1", {"rows": 0})

    answer = await cli("dags", "show", "closer")

    assert "condition_error" in answer.out
    assert "at character 7 of 'rows >': expected a field or a value" in answer.out
