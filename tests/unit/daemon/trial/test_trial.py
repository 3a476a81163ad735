"""Trying DAGs without servers: events, conditions and times as a daemon decides, and tasks that do their work."""

import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tidegate import Dag, Dataset, DatasetOrTime, DatasetsAndTime, Event, Run, SkipTask, Timed, cron, follow, skip_rest
from tidegate.schemas.error import DagError

flights, weather, delays = Dataset("lake://flights"), Dataset("lake://weather"), Dataset("lake://delays")


def pipeline(**options: Any) -> Dag:
    with Dag("daily", schedule=flights & weather, **options) as dag:

        @dag.task(outlets=[delays])
        def join(spark: Any, run: Run) -> int:
            run.outlets[delays].extra["rows"] = sum(event.extra.get("rows", 0) for event in run.events)
            return len(run.events)

        @dag.task
        def report(spark: Any, run: Run) -> str:
            run.publish("lake://reports", {"of": run.run_id[:7]})
            return f"{run.results['join']} events"

        join >> report
    return dag


def returning(value: Any) -> Callable[[Any, Run], Any]:
    return lambda _spark, _run: value


def test_events_that_meet_the_condition_make_a_run_whose_tasks_do_their_work() -> None:
    run = pipeline().test(events=[Event(flights, {"rows": 3}), Event(weather, {"rows": 4})]).run

    assert (run.run_type, run.state) == ("dataset", "success")
    assert run.states == {"join": "success", "report": "success"}
    assert [event.uri for event in run.events] == [flights.uri, weather.uri]
    assert run.tasks["report"].result == "2 events"
    assert run.published == (Event("lake://delays", {"rows": 7}), Event("lake://reports", {"of": "dataset"}))


def test_events_that_do_not_meet_the_condition_make_no_run_and_it_says_what_is_missing() -> None:
    trial = pipeline().test(events=[flights])

    assert (trial.runs, trial.waits_for) == ((), "its condition to hold: no event is pending of lake://weather")
    with pytest.raises(
        DagError, match="there is no run: the DAG waits for its condition to hold: no event is pending of lake://weather"
    ):
        _ = trial.run


def test_a_misspelt_dataset_is_named_with_the_nearest_one_of_the_schedule() -> None:
    trial = pipeline().test(events=["lake://flihgts", weather, "x"])

    told = "the DAG is not scheduled on this dataset"
    assert [(event.uri, reason) for event, reason in trial.discarded] == [
        ("lake://flihgts", f"{told}; did you mean lake://flights?"),
        ("x", told),
    ]
    with pytest.raises(DagError, match=f"of lake://flights; lake://flihgts is discarded: {told}; did you mean lake://flights"):
        _ = trial.run


def test_a_task_is_replaced_by_a_function() -> None:
    seen: list[Any] = []

    run = (
        pipeline().test(events=[flights, weather], replace={"join": returning(12), "report": lambda _, run: seen.append(run)}).run
    )

    assert run.states == {"join": "success", "report": "success"}
    assert seen[0].results == {"join": 12}


def fails(spark: Any, run: Run) -> None:
    raise ValueError("no rows")


def test_a_failed_task_has_its_reason_and_fails_those_after_it(caplog: pytest.LogCaptureFixture) -> None:
    run = pipeline().test(events=[flights, weather], replace={"join": fails}).run

    assert (run.state, run.states) == ("failed", {"join": "failed", "report": "upstream_failed"})
    assert run.tasks["join"].reason.startswith("ValueError: no rows (tests/unit/daemon/trial/test_trial.py, line ")
    assert run.published == ()
    assert f"join failed in try 1: {run.tasks['join'].reason}" in caplog.messages


def failing(times: int) -> Callable[[Any, Run], int]:
    def function(spark: Any, run: Run) -> int:
        if run.try_number <= times:
            raise ValueError("not yet")
        return run.try_number

    return function


def test_retries_follow_at_once_on_a_clock_of_their_own() -> None:
    dag = pipeline(default_args={"retries": 2, "retry_delay": timedelta(hours=1)})

    run = dag.test(events=[flights, weather], replace={"join": failing(2)}).run

    assert (run.tasks["join"].state, run.tasks["join"].try_number, run.tasks["join"].result) == ("success", 3, 3)


def test_other_runs_do_not_wait_for_the_retries_of_a_run() -> None:
    with Dag("each", schedule=flights, default_args={"retries": 1, "retry_delay": timedelta(hours=1)}) as dag:
        dag.command("say", ["true"])

    trial = dag.test(events=[flights, Event(flights, after=timedelta(minutes=10))], replace={"say": failing(1)})

    first, second = trial.runs
    assert [run.tasks["say"].try_number for run in trial.runs] == [2, 2]
    assert second.started_at - first.started_at == timedelta(minutes=10)


def test_failed_runs_in_a_row_pause_the_dag() -> None:
    with Dag("each", schedule=flights, mode="each", max_active_runs=1, max_consecutive_failed_dag_runs=2) as dag:
        dag.command("say", ["true"])

    trial = dag.test(events=[flights] * 4, replace={"say": fails})

    assert [run.state for run in trial.runs] == ["failed", "failed"]
    assert trial.waits_for == "an unpause: 2 runs failed in a row"


def test_filters_and_expiry_discard_events_with_the_reason() -> None:
    with Dag("some", schedule=Dataset("lake://a", where="rows > 0", expire_after=timedelta(hours=1)) & weather) as dag:
        dag.empty("done")

    trial = dag.test(
        events=[Event("lake://a", {"rows": 0}), Event("lake://a", {"rows": 1}), Event("lake://weather", after=timedelta(hours=2))]
    )

    assert trial.runs == ()
    assert [(event.extra, reason) for event, reason in trial.discarded] == [
        ({"rows": 0}, "no filter of the DAG accepts it"),
        ({"rows": 1}, "it expired before a run consumed it"),
    ]


def test_timings_are_on_the_clock_of_the_test() -> None:
    with Dag("calm", schedule=Timed(flights, quiet_for=timedelta(minutes=10), min_interval=timedelta(hours=1))) as dag:
        dag.empty("done")
    minutes = [0, 5, 30]

    trial = dag.test(events=[Event(flights, {"n": n}, after=timedelta(minutes=n)) for n in minutes])

    first, second = trial.runs
    assert [[event.extra["n"] for event in run.events] for run in trial.runs] == [[0, 5], [30]]
    assert second.started_at - first.started_at == timedelta(hours=1)


def test_one_run_per_event_has_the_events_in_order() -> None:
    with Dag("each", schedule=flights, mode="each", max_active_runs=1) as dag:
        dag.command("say", ["true"])

    trial = dag.test(
        events=[Event(flights, {"n": n}) for n in range(3)], replace={"say": lambda _, run: run.events[0].extra["n"]}
    )

    assert [run.tasks["say"].result for run in trial.runs] == [0, 1, 2]


def test_a_dag_by_time_runs_at_its_next_time() -> None:
    with Dag("nightly", schedule=cron("0 3 * * *"), start_date=datetime(2013, 1, 1, tzinfo=UTC), catchup=True) as dag:
        dag.empty("done")

    run = dag.test().run

    assert (run.run_type, run.logical_date) == ("scheduled", datetime(2013, 1, 1, 3, tzinfo=UTC))


def test_datasets_and_time_wait_for_both() -> None:
    with Dag("both", schedule=DatasetsAndTime(flights, "@hourly")) as dag:
        dag.empty("done")

    run = dag.test(events=[flights]).run

    assert (run.run_type, len(run.events), run.started_at.minute) == ("scheduled", 1, 0)


@pytest.mark.parametrize(
    ("time", "after", "runs"),
    [("* * * * *", timedelta(minutes=10), 2), ("0 0 * * *", timedelta(days=400), 2), ("* * * * *", timedelta(0), 1)],
)
def test_later_events_of_a_dag_by_datasets_and_time_make_a_run_at_its_next_time(time: str, after: timedelta, runs: int) -> None:
    dag = Dag("x", schedule=DatasetsAndTime([Dataset("lake://a")], cron(time)))

    trial = dag.test(events=[Event("lake://a"), Event("lake://a", after=after)])

    assert [len(run.events) for run in trial.runs] == ([1, 1] if runs == 2 else [2])


def test_events_of_a_dag_that_also_runs_by_time_make_dataset_runs() -> None:
    with Dag("either", schedule=DatasetOrTime(flights, "@hourly")) as dag:
        dag.empty("done")

    assert dag.test(events=[flights]).run.run_type == "dataset"
    assert dag.test().run.run_type == "scheduled"


def test_a_manual_run_has_params_and_a_date() -> None:
    with Dag("asked", params={"day": "x"}) as dag:
        dag.command("say", ["true"])

    at = datetime(2013, 1, 1, tzinfo=UTC)
    run = dag.test(logical_date=at, replace={"say": lambda _, run: [run.params["day"], run.ds]}).run

    assert (run.run_type, run.tasks["say"].result) == ("manual", ["x", "2013-01-01"])


def test_the_event_of_a_dataset_equals_that_of_its_uri() -> None:
    of_dataset, of_uri = Event(Dataset("a://b", name="B"), {"rows": 1}), Event("a://b", {"rows": 1})

    assert (of_dataset, of_dataset.uri, repr(of_dataset)) == (of_uri, "a://b", repr(of_uri))
    assert of_dataset != Event("a://c", {"rows": 1})


def test_a_param_that_a_dag_lacks_starts_no_run_with_defaults() -> None:
    asked, free = Dag("asked", params={"day": "x"}), Dag("free", params={"day": "x"}, extra_params=True)

    with pytest.raises(DagError, match=r"^DAG 'asked': there is no param 'dya'; did you mean day\?$"):
        asked.test(params={"dya": "y"})
    assert free.test(params={"dya": "y"}).run.state == "success"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"events": [flights], "params": {}}, "leave out one of both"),
        ({"event": [flights]}, r"unknown argument event; did you mean events\?"),
        ({"events": [5]}, "events: 5 is no event of a dataset"),
        ({"events": ["lake://a b"]}, "events: 'lake://a b' is no event of a dataset: a URI"),
        ({"events": [Event(flights, {"rows": object()})]}, "is no event of a dataset"),
        ({"events": [Event(flights, after=timedelta.max)]}, "events: after must not be longer than ten years"),
        ({"replace": {"joni": returning(1)}}, r"replace: there is no task 'joni'; did you mean join\?"),
        ({"folder": Path("gone")}, "folder: .*/gone does not exist"),
        ({"logical_date": datetime(2013, 1, 1)}, "logical_date has no time zone"),  # noqa: DTZ001 - what is refused
    ],
)
def test_wrong_arguments_are_told(options: Any, reason: str) -> None:
    with pytest.raises(DagError, match=reason):
        pipeline().test(**options)


def test_branches_skips_mapped_tasks_and_setups_are_decided_as_in_a_daemon() -> None:
    with Dag("shape") as dag:

        @dag.task
        def carriers(spark: Any, run: Run) -> list[str]:
            return ["AA", "UA"]

        @dag.task
        def load(spark: Any, run: Run) -> str:
            if run.map_index == 1:
                raise SkipTask("closed")
            assert run.results == {}
            return str(run.item).lower()

        @dag.task
        def choose(spark: Any, run: Run) -> Any:
            return follow("small") if run.results["load"] == ["aa", None] else skip_rest()

        carriers >> load.expand(over=carriers) >> choose >> [dag.empty("small"), dag.empty("large")]

    run = dag.test().run

    assert run.states == {
        "carriers": "success",
        "load": "success",
        "load[0]": "success",
        "load[1]": "skipped",
        "choose": "success",
        "small": "success",
        "large": "skipped",
    }
    assert run.tasks["load[1]"].reason == "closed"


def test_fail_fast_ends_the_tasks_that_wait() -> None:
    with Dag("fast", fail_fast=True) as dag:
        dag.command("bad", ["false"])
        dag.command("other", ["true"])

    run = dag.test().run

    assert (run.state, run.states) == ("failed", {"bad": "failed", "other": "skipped"})


def test_a_task_that_depends_on_the_past_runs() -> None:
    with Dag("past", default_args={"depends_on_past": True}) as dag:
        dag.command("first", ["true"]) >> dag.command("second", ["true"])

    assert dag.test().run.state == "success"


def test_programs_are_executed_with_their_templates_and_print_what_they_say(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sub").mkdir()
    script = "import os, sys; print(os.getcwd(), os.environ['DAY'], sys.argv[1]); sys.exit(3)"
    with Dag("programs", params={"day": "2013-01-01"}) as dag:
        dag.command("run", [sys.executable, "-c", script, "{{ run.run_type }}"], env={"DAY": "{{ params.day }}"}, cwd="sub")

    monkeypatch.chdir(tmp_path.parent)

    run = dag.test(folder=Path(tmp_path.name)).run

    printed = f"{tmp_path}/sub 2013-01-01 manual"
    assert capfd.readouterr().err == f"{printed}\n"
    assert run.tasks["run"].reason == f"{sys.executable} ended with exit code 3: {printed}"


def test_tasks_get_what_a_daemon_passes_on_and_none_of_its_settings(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TIDEGATE_POSTGRES_DSN", "postgresql://tidegate:canary@127.0.0.1/tidegate")
    monkeypatch.setenv("PGPASSWORD", "canary")
    with Dag("env") as dag:

        @dag.task
        def read(spark: Any, run: Run) -> list[str]:
            return list(os.environ.values())

        dag.command("say", [sys.executable, "-c", "import os; print(os.environ)"])

    run = dag.test().run

    assert run.state == "success"
    assert "canary" not in f"{run.tasks['read'].result} {capfd.readouterr()}"
    assert os.environ["PGPASSWORD"] == "canary"


def test_what_pyspark_keeps_in_the_environment_is_there_in_the_next_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_KEPT", "")  # so that it is removed in the end
    monkeypatch.delenv("SPARK_KEPT")
    with Dag("env") as dag:

        @dag.task(env={"SPARK_OWN": "1"})
        def opens(spark: Any, run: Run) -> None:
            os.environ |= {"SPARK_KEPT": "1", "OTHER": "1"}

        @dag.task
        def uses(spark: Any, run: Run) -> list[bool]:
            return [name in os.environ for name in ("SPARK_KEPT", "SPARK_OWN", "OTHER")]

        opens >> uses

    assert dag.test().run.tasks["uses"].result == [True, False, False]


def test_a_function_has_its_environment_only_while_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DAY", raising=False)
    with Dag("env") as dag:

        @dag.task(env={"DAY": "{{ task_id }}"})
        def read(spark: Any, run: Run) -> str:
            return os.environ["DAY"]

    assert dag.test().run.tasks["read"].result == "read"
    assert "DAY" not in os.environ


def test_sql_runs_on_the_given_session_and_gives_outlets_their_extra() -> None:
    class Row(tuple[int]):
        def asDict(self) -> dict[str, int]:  # noqa: N802 - as of pyspark
            return {"extra.rows": self[0]}

    class Frame:
        columns = ("extra.rows",)

        def limit(self, _count: int) -> "Frame":
            return self

        def collect(self) -> list[Row]:
            return [Row((12,))]

    class Session:
        def __init__(self) -> None:
            self.statements: list[str] = []

        def sql(self, statement: str) -> Frame:
            self.statements.append(statement)
            return Frame()

    with Dag("sql") as dag:
        dag.sql("count", "SELECT '{{ run.run_type }}'", outlets=[delays])

    session = Session()
    run = dag.test(spark=session).run

    assert session.statements == ["SELECT 'manual'"]
    assert run.published == (Event(delays.uri, {"rows": 12}),)
