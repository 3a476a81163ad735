"""DAGs and tasks of the authoring API."""

import sys
from datetime import UTC, datetime, timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from tidegate import Dag, DagError, Dataset, Param, Run, TriggerRule, WeightRule
from tidegate.schemas.authoring.resources import ResourceLimits
from tidegate.schemas.conditions.condition import AllOf, DatasetRef, DatasetSpec
from tidegate.schemas.dag import CommandTask, DagSpec, EmptyTask, FunctionTask, Resources, SqlTask, SubmitTask
from tidegate.schemas.params import ParamSpec

DELAYS = Dataset("lake://delays")
RUN = Run(dag_id="d", run_id="r", run_type="manual", run_after=datetime(2013, 1, 1, tzinfo=UTC), params={"day": 1})


def test_a_dag_is_serialised_whole() -> None:
    flights, weather = Dataset("lake://flights"), Dataset("lake://weather")

    with Dag("daily_delays", schedule=flights & weather, max_active_runs=4, description="Delays", tags=["daily"]) as dag:

        @dag.task(retries=2, retry_delay=timedelta(minutes=5))
        def join(spark: Any, run: Run) -> None: ...

        report = dag.sql("report", "SELECT 1")
        publish = dag.submit(
            "publish", "publish.py", args=["--run"], conf={"spark.executor.memory": "1g"}, cluster="nightly", outlets=[DELAYS]
        )
        limits: ResourceLimits = {"memory": "2G", "cpus": 1.5}
        notify = dag.command("notify", ["echo", "done"], env={"WHO": "all"}, resources=limits)
        join >> report >> publish >> [notify, dag.empty("done")]

    assert dag.spec() == DagSpec(
        dag_id="daily_delays",
        description="Delays",
        schedule=AllOf((DatasetRef("lake://flights"), DatasetRef("lake://weather"))),
        max_active_runs=4,
        tags=("daily",),
        tasks=(
            FunctionTask(task_id="join", retries=2, retry_delay_s=300.0, weight=5),
            SqlTask(task_id="report", upstream=("join",), sql="SELECT 1", weight=4),
            SubmitTask(
                task_id="publish",
                upstream=("report",),
                application="publish.py",
                args=("--run",),
                conf={"spark.executor.memory": "1g"},
                cluster="nightly",
                outlets=("lake://delays",),
                weight=3,
            ),
            CommandTask(
                task_id="notify",
                upstream=("publish",),
                argv=("echo", "done"),
                env={"WHO": "all"},
                resources=Resources(memory_mb=2048, cpus=1.5),
            ),
            EmptyTask(task_id="done", upstream=("publish",)),
        ),
    )


def test_a_dag_of_sets_is_the_same_in_each_process() -> None:
    """Hashes of strings differ between processes, and with them the order of a set."""
    letters = set("abcdefgh")
    options: Any = {"outlets": {Dataset(f"lake://{letter}", extra={"of": letters}) for letter in letters}}

    with Dag("d", tags=letters, params={"p": letters}) as dag:
        dag.empty("t", **options)

    spec, listed = dag.spec(), list("abcdefgh")
    assert (list(spec.tags), spec.params["p"].default) == (listed, listed)
    assert spec.tasks[0].outlets == tuple(f"lake://{letter}" for letter in listed)
    assert [dataset.extra for dataset in spec.datasets] == [{"of": listed}] * 8


def test_a_rule_is_written_by_its_name_or_by_the_enumeration() -> None:
    dag = Dag("d")
    dag.empty("t", trigger_rule="one_failed", weight_rule="upstream")
    dag.empty("u", trigger_rule=TriggerRule.ONE_FAILED, weight_rule=WeightRule.UPSTREAM)

    assert {(task.trigger_rule, task.weight_rule) for task in dag.spec().tasks} == {(TriggerRule.ONE_FAILED, WeightRule.UPSTREAM)}


def test_the_description_of_a_param_is_one_of_its_schema() -> None:
    spec = Dag("d", params={"a": Param(1, description="Days", type="integer"), "b": Param(2), "c": 3}).spec()

    assert spec.params == {
        "a": ParamSpec(default=1, schema={"type": "integer", "description": "Days"}),
        "b": ParamSpec(default=2),
        "c": ParamSpec(default=3),
    }


def test_a_dag_describes_the_datasets_that_it_names() -> None:
    flights, delays = Dataset("lake://named", name="Flights"), Dataset("lake://made", extra={"team": "ops"})
    Dataset("lake://other", name="Other")

    with Dag("d", schedule=flights) as dag:
        dag.empty("t", outlets=[delays])

    assert dag.spec().datasets == (DatasetSpec("lake://made", "", {"team": "ops"}), DatasetSpec("lake://named", "Flights"))


def test_an_application_has_its_files_and_a_command_its_folder() -> None:
    with Dag("d") as dag:
        dag.submit("a", "a.py", py_files=["lib"], files=["a.conf"], jars=["a.jar"], packages=["org.example:a:1"])
        dag.command("b", ["ls"], cwd="etl")

    assert dag.spec().tasks == (
        SubmitTask(
            task_id="a",
            application="a.py",
            py_files=("lib",),
            files=("a.conf",),
            jars=("a.jar",),
            packages=("org.example:a:1",),
        ),
        CommandTask(task_id="b", argv=("ls",), cwd="etl"),
    )


def test_a_function_task_is_still_a_function() -> None:
    dag = Dag("d")

    @dag.task
    def add(spark: int, run: int) -> int:
        """Adds."""
        return spark + run

    assert (add(1, run=2), add.__doc__, dag.functions["add"](3, 4)) == (3, "Adds.", 7)


def test_a_function_task_can_have_another_name() -> None:
    dag = Dag("d")

    dag.task(task_id="other")(lambda _, run: run.params["day"])

    assert dag.functions["other"](None, RUN) == 1


def test_a_method_of_an_object_can_be_a_task() -> None:
    class Step:
        def work(self, _: object, run: Run) -> str:
            return run.run_id

    dag = Dag("d")

    task = dag.task(Step().work)

    assert task(None, RUN) == "r"


def test_what_a_file_builds_says_what_it_is() -> None:
    with Dag("d") as dag, dag.group("g") as group:
        task = dag.empty("t")

    assert (repr(dag), repr(group), repr(task)) == ("<Dag d: 1 tasks>", "task group 'g'", "task 'g.t'")


def test_a_test_of_a_dag_is_run_by_the_daemons_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which this layer does not know."""
    given: list[Any] = []
    runner = SimpleNamespace(run_dag=lambda dag, **options: given.append((dag, options)))
    monkeypatch.setitem(sys.modules, "tidegate.daemon.trial.run_dag", runner)
    dag = Dag("d")

    dag.test(params={"day": 1})

    assert given == [(dag, {"params": {"day": 1}})]


def linked_by_calls(spark: Any, run: Run) -> int:
    return len(spark) + int(run.params["day"])


@pytest.mark.parametrize("given", [(), (None,), (None, None, None)])
def test_a_task_that_is_called_to_be_linked_is_told_how_it_is(given: tuple[Any, ...]) -> None:
    task = Dag("d").task(task_id="load")(linked_by_calls)

    with pytest.raises(
        DagError, match=r"^DAG 'd', task 'load': to link it, write linked_by_calls >> other without bra"
    ) as raised:
        task(*given)

    assert raised.value.place is not None
    assert raised.value.place[0] == __file__


def test_a_callable_without_a_name_is_linked_by_that_of_its_task() -> None:
    task = Dag("d").task(task_id="load")(partial(linked_by_calls))

    with pytest.raises(DagError, match=r"^DAG 'd', task 'load': to link it, write load >> other without brackets; a call runs"):
        task()  # type: ignore[call-arg]


def test_a_call_with_the_arguments_of_a_function_is_one_of_the_function() -> None:
    task = Dag("d").task(linked_by_calls)

    assert (task("ab", RUN), task("ab", run=RUN)) == (3, 3)
    with pytest.raises(TypeError, match="NoneType"):
        task(None, RUN)
    with pytest.raises(TypeError, match="NoneType"):
        task(None, run=RUN)
