"""Mistakes in DAG files and their messages."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from tests.unit.schemas.authoring.values import Incomparable
from tidegate import Dag, DagError, Dataset, Param, Secret, Task

DELAYS = Dataset("lake://delays")
OUT_OF_RANGE = "is out of range; write a time from 1900-01-01 to 2200-01-01 UTC"
FIRST, LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
CLUSTER_MODE: Any = {"deploy_mode": "cluster"}
UNKNOWN_MODE: Any = {"deploy_mode": "Client"}
NAMES: list[Any] = ["", "two words", "line\n", "a/b", "x" * 251, ".", "..", None, 5]


@pytest.mark.parametrize("name", NAMES)
def test_a_dag_name_that_cannot_be_is_refused(name: Any) -> None:
    with pytest.raises(DagError, match=r"^dag_id .*: a name is 1 to 250 letters, digits, _, - or \., and not only"):
        Dag(name)


@pytest.mark.parametrize("name", NAMES)
def test_a_task_name_that_cannot_be_is_refused(name: Any) -> None:
    with pytest.raises(DagError, match=r"^DAG 'd': task_id .*: a name is 1 to 250 letters, digits, _, - or \., and not only"):
        Dag("d").empty(name)


def test_the_longest_names_are_allowed() -> None:
    dag = Dag("d" * 250)

    assert (dag.dag_id, dag.empty("t" * 250).task_id) == ("d" * 250, "t" * 250)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"schedual": None}, "DAG 'd': unknown argument schedual; did you mean schedule?"),
        ({"max_active_runs": 0}, "DAG 'd': max_active_runs: expected `int` >= 1"),
        ({"mode": "at - at `$.x"}, "DAG 'd': mode: invalid enum value 'at - at `$.x'"),
        ({"description": "a\0"}, "DAG 'd': a text contains a NUL character"),
        (
            {"description": "\ud800"},
            "DAG 'd': a text is not valid Unicode: 'utf-8' codec can't encode character '\\ud800' in position 0: surrogates not"
            " allowed",
        ),
        ({"max_active_runs": "4"}, "DAG 'd': max_active_runs: expected `int`, got `str`"),
        ({"description": 5}, "DAG 'd': description: expected `str`, got `int`; write str(…) around it"),
        ({"tags": "nightly"}, "DAG 'd': tags must be a list of strings, not 'nightly'"),
        (
            {"default_args": {"cluster": ""}},
            "DAG 'd': default_args: cluster '': a name of TIDEGATE_SPARK_CLUSTERS is letters, digits, _, - or .",
        ),
        ({"default_args": {"sql": "x"}}, "DAG 'd': default_args: unknown option sql"),
        ({"default_args": {1: "x"}}, "DAG 'd': default_args: unknown option 1"),
        ({"default_args": 1}, "DAG 'd': default_args is a dict of options like {'retries': 2}, not 1"),
        ({"tags": [1]}, "DAG 'd': tags[0]: expected `str`, got `int`; write str(…) around it"),
        ({"start_date": FIRST}, f"DAG 'd': start_date 0001-01-01T00:00:00+00:00 {OUT_OF_RANGE}"),
        ({"end_date": LAST}, f"DAG 'd': end_date 9999-12-31T23:59:59.999999+00:00 {OUT_OF_RANGE}"),
        ({"schedule": [LAST]}, f"DAG 'd': the date 9999-12-31T23:59:59.999999+00:00 {OUT_OF_RANGE}"),
    ],
)
def test_a_dag_option_that_cannot_be_is_refused(options: Any, message: str) -> None:
    with pytest.raises(DagError) as caught:
        Dag("d", **options)

    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("param", "message"),
    [
        (Param(), "it needs a default, because a schedule starts runs without giving values"),
        (Param(object()), "only JSON can be a default or a schema: Encoding objects of type object is unsupported"),
        (Param(1, type="string"), "its default does not fit its schema: 1 is not of type 'string'"),
        (Param(1, type="text"), "its schema is not valid JSON Schema: 'text' is not valid under any of the given schemas"),
        (
            Param(1, **{"$ref": "https://example.org/schema"}),
            "its schema refers to 'https://example.org/schema', which is no part of it; write the definition under $defs, and"
            " refer to #/$defs/NAME",
        ),
    ],
)
def test_a_param_that_cannot_be_is_refused(param: Param, message: str) -> None:
    with pytest.raises(DagError) as caught:
        Dag("d", schedule="@daily", params={"p": param})

    assert str(caught.value) == f"DAG 'd': param 'p': {message}"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"retries": -1}, "retries: expected `int` >= 0"),
        ({"retries": True}, "retries: expected `int`, got `bool`"),
        ({"retires": 1}, "unknown option retires; did you mean retries?"),
        ({"colour": 1}, "unknown option colour"),
        ({"trigger_rule": "all_sucess"}, "'all_sucess' is no trigger_rule; did you mean all_success?"),
        ({"weight_rule": "x"}, "'x' is no weight_rule; there are downstream, upstream, absolute"),
        ({"retry_delay": 5}, "retry_delay must be a timedelta like timedelta(minutes=5), not 5"),
        ({"retry_delay": timedelta(seconds=-1)}, "retry_delay must not be negative"),
        ({"start_date": FIRST}, f"start_date 0001-01-01T00:00:00+00:00 {OUT_OF_RANGE}"),
        ({"resources": "2g"}, "resources must be a dict like {'memory': '2g', 'cpus': 1.5}, not '2g'"),
        ({"resources": {}}, "resources must be a dict like {'memory': '2g', 'cpus': 1.5}, not {}"),
        ({"resources": {"ram": 1}}, "resources must be a dict like {'memory': '2g', 'cpus': 1.5}, not {'ram': 1}"),
        ({"resources": {"memory": 512}}, "resources: memory is a size like '512m' or '2g', from 64m to 64t, not 512"),
        ({"resources": {"memory": "2"}}, "resources: memory is a size like '512m' or '2g', from 64m to 64t, not '2'"),
        ({"resources": {"memory": "63m"}}, "resources: memory is a size like '512m' or '2g', from 64m to 64t, not '63m'"),
        ({"resources": {"memory": "65t"}}, "resources: memory is a size like '512m' or '2g', from 64m to 64t, not '65t'"),
        ({"resources": {"cpus": 0}}, "resources: cpus is a number of processors like 1.5, from 0.01 to 10000, not 0"),
        ({"resources": {"cpus": True}}, "resources: cpus is a number of processors like 1.5, from 0.01 to 10000, not True"),
        ({"resources": {"cpus": 20_000}}, "resources: cpus is a number of processors like 1.5, from 0.01 to 10000, not 20000"),
        ({"outlets": DELAYS}, "outlets is a list of datasets, like outlets=[Dataset('lake://delays')]"),
        ({"outlets": "lake://x"}, "outlets is a list of datasets, like outlets=[Dataset('lake://delays')]"),
        ({"outlets": 5}, "outlets is a list of datasets, like outlets=[Dataset('lake://delays')]"),
        ({"outlets": ["lake://x"]}, "outlets are datasets, not 'lake://x'"),
        ({"outlets": [DELAYS & DELAYS]}, "outlets are datasets, not (lake://delays & lake://delays)"),
    ],
)
def test_a_task_option_that_cannot_be_is_refused(options: Any, message: str) -> None:
    with pytest.raises(DagError) as caught:
        Dag("d").empty("t", **options)

    assert str(caught.value) == f"DAG 'd', task 't': {message}"


@pytest.mark.parametrize("option", ["trigger_rule", "weight_rule"])
def test_a_rule_that_cannot_be_compared_is_refused(option: Any) -> None:
    options: Any = {option: Incomparable()}

    with pytest.raises(DagError, match=rf"^DAG 'd', task 't': <.*> is no {option}; there are "):
        Dag("d").empty("t", **options)


@pytest.mark.parametrize("wrong", [None, 1, "yes", object()])
def test_a_teardown_fails_the_run_or_does_not(wrong: Any) -> None:
    dag = Dag("d")
    setup = dag.empty("s")

    with pytest.raises(DagError, match=r"^DAG 'd', task 't': on_failure_fail_dagrun is True or False, not "):
        dag.empty("t").as_teardown(setups=setup, on_failure_fail_dagrun=wrong)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda dag: dag.sql("t", ""), "sql: expected `str` of length >= 1"),
        (lambda dag: dag.sql("t", object()), "Encoding objects of type object is unsupported"),
        (lambda dag: dag.submit("t", ""), "application: expected `str` of length >= 1"),
        (lambda dag: dag.task(task_id="t", retries=-1)(lambda spark, run: (spark, run)), "retries: expected `int` >= 0"),
        (lambda dag: dag.submit("t", "a.py", py_files="a"), "py_files must be a list of strings, not 'a'"),
        (lambda dag: dag.submit("t", "a.py", files="a"), "files must be a list of strings, not 'a'"),
        (lambda dag: dag.submit("t", "a.py", jars="a"), "jars must be a list of strings, not 'a'"),
        (lambda dag: dag.submit("t", "a.py", packages="a"), "packages must be a list of strings, not 'a'"),
        (lambda dag: dag.submit("t", "a.py", args="--run"), "args must be a list of strings, not '--run'"),
        (lambda dag: dag.submit("t", "a.py", args={"--run": "r"}), "args must be a list of strings, not {'--run': 'r'}"),
        (lambda dag: dag.submit("t", "a.py", conf={"a": 1}), "conf must be a dict of strings and secrets, not {'a': 1}"),
        (lambda dag: dag.submit("t", "a.py", conf=["a"]), "conf must be a dict of strings, not ['a']"),
        (
            lambda dag: dag.sql("t", "SELECT 1", cluster=""),
            "cluster '': a name of TIDEGATE_SPARK_CLUSTERS is letters, digits, _, - or .",
        ),
        (lambda dag: dag.command("t", ["ls"], cluster="x"), "unknown option cluster"),
        (
            lambda dag: dag.command("t", ["ls"], python="python3"),
            "python is the absolute path of an interpreter, like '/opt/etl/bin/python', not 'python3'",
        ),
        (
            lambda dag: dag.command("t", ["ls"], python="/opt/\n"),
            "python is the absolute path of an interpreter, like '/opt/etl/bin/python', not '/opt/\\n'",
        ),
        (lambda dag: dag.sql("t", "SELECT 1", env={}), "unknown option env"),
        (
            lambda dag: dag.submit("t", "a.py", **CLUSTER_MODE),
            "deploy_mode 'cluster': a driver inside of the cluster could be neither followed nor ended; leave it out:"
            " the driver runs on the host of the daemon",
        ),
        (lambda dag: dag.submit("t", "a.py", **UNKNOWN_MODE), "deploy_mode must be \"client\", not 'Client'"),
        (lambda dag: dag.command("t", "ls -l"), "argv must be a list of strings, not 'ls -l'"),
        (lambda dag: dag.command("t", {"ls"}), "argv must be a list of strings, not {'ls'}"),
        (lambda dag: dag.command("t", []), "argv: expected `array` of length >= 1"),
        (lambda dag: dag.command("t", ["ls", 1]), "argv[1]: expected `str`, got `int`; write str(…) around it"),
    ],
)
def test_the_arguments_of_tasks_are_checked(wrong: Callable[[Dag], object], message: str) -> None:
    with pytest.raises(DagError) as caught:
        wrong(Dag("d"))

    assert str(caught.value) == f"DAG 'd', task 't': {message}"


async def coroutine(spark: object, run: object) -> None: ...


def generator(spark: object, run: object) -> Any:
    yield


def one(spark: object) -> None: ...


def three(spark: object, run: object, more: object) -> None: ...


def keyword(spark: object, *, run: object) -> None: ...


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (one, "the function is called with (spark, run), but its parameters are (spark: object) -> None"),
        (
            three,
            "the function is called with (spark, run), but its parameters are (spark: object, run: object, more: object) -> None",
        ),
        (keyword, "the function is called with (spark, run), but its parameters are (spark: object, *, run: object) -> None"),
        (coroutine, "the function must be a plain one, neither async nor a generator"),
        (generator, "the function must be a plain one, neither async nor a generator"),
        (int, "the function is called with (spark, run), but Python does not know its parameters"),
    ],
)
def test_a_function_that_cannot_be_a_task_is_refused(function: Any, message: str) -> None:
    with pytest.raises(DagError) as caught:
        Dag("d").task(task_id="t")(function)

    assert str(caught.value) == f"DAG 'd', task 't': {message}"


def test_a_callable_without_a_name_needs_a_task_id() -> None:
    with pytest.raises(DagError, match=r"^DAG 'd': task_id None: a name is 1 to 250 letters"):
        Dag("d").task(partial(keyword, None))


def test_only_functions_can_be_decorated() -> None:
    wrong: Any = "join"

    with pytest.raises(DagError, match=r"^DAG 'd': @dag\.task decorates a function, not 'join'"):
        Dag("d").task(wrong)


def test_a_task_id_cannot_be_used_twice() -> None:
    dag = Dag("d")
    dag.empty("t")

    with pytest.raises(DagError, match="DAG 'd': task_id 't' is used twice; each task needs a name of its own"):
        dag.sql("t", "SELECT 1")


def test_a_cycle_is_named_and_blamed_on_the_line_that_closes_it() -> None:
    dag = Dag("d")
    a, b, c = (dag.empty(name) for name in "abc")
    a >> b >> c
    c >> a
    closing_line = test_a_cycle_is_named_and_blamed_on_the_line_that_closes_it.__code__.co_firstlineno + 4

    with pytest.raises(DagError) as caught:
        dag.spec()

    assert str(caught.value) == "DAG 'd': its tasks form a cycle: a >> b >> c >> a"
    assert caught.value.place == (__file__, closing_line)


def tangle(then: Exception | None = None) -> None:
    with Dag("d") as dag:
        a, b = dag.empty("a"), dag.empty("b")
        a >> b >> a
        if then:
            raise then


def test_leaving_the_with_block_checks_the_dag() -> None:
    with pytest.raises(DagError, match="cycle: a >> b >> a"):
        tangle()


def test_an_error_inside_the_with_block_is_not_hidden_by_the_check() -> None:
    with pytest.raises(ZeroDivisionError):
        tangle(then=ZeroDivisionError())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda t: t >> t, "DAG 'd': task 't' cannot come after itself"),
        (lambda t: t >> "x", "DAG 'd', task 't': >> and << take a task, a task group or a list of them, not 'x'"),
        (lambda t: t << ["x"], "DAG 'd', task 't': >> and << take a task, a task group or a list of them, not ['x']"),
        (lambda t: ["x"] >> t, "DAG 'd', task 't': >> and << take a task, a task group or a list of them, not ['x']"),
        (lambda t: t.as_teardown(setups=[]), "DAG 'd', task 't': a teardown needs at least one setup"),
        (lambda t: t.expand(over="x"), "DAG 'd', task 't': expand(over=…) takes the task that returns the list, not 'x'"),
        (
            lambda t: t.expand(over=t, map_label=3),
            "DAG 'd', task 't': map_label names a field of the elements in at most 250 characters, such as 'day' or 'flight.day',"
            " not 3",
        ),
        (lambda t: t.expand(over=t), "DAG 'd', task 't': an empty task cannot be mapped, for it does nothing with an element"),
        (lambda t: t.as_teardown(setups="x"), "DAG 'd', task 't': setups is a task or a list of tasks, not 'x'"),
        (
            lambda t: t >> DELAYS,
            "DAG 'd', task 't': >> and << take a task, a task group or a list of them, not Dataset('lake://delays');"
            " a dataset that a task updates belongs in its outlets",
        ),
        (
            lambda t: t >> Dag("other").empty("x"),
            "task 't' of DAG 'd' and task 'x' of DAG 'other': only tasks of one DAG can be linked;"
            " let one DAG wait for an outlet of the other",
        ),
    ],
)
def test_only_tasks_of_one_dag_can_be_linked(wrong: Callable[[Task], object], message: str) -> None:
    with pytest.raises(DagError) as caught:
        wrong(Dag("d").empty("t"))

    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ({"A": 1}, "env must be a dict of strings and secrets, not {'A': 1}"),
        ("A=1", "env must be a dict of strings, not 'A=1'"),
        ({"1A": "x"}, "env '1A': the name of a variable is letters, digits and _, and begins with no digit"),
        ({"A=B": "x"}, "env 'A=B': the name of a variable is letters, digits and _, and begins with no digit"),
        ({"TIDEGATE_EVENTS": "x"}, "env 'TIDEGATE_EVENTS' is set by Tidegate; choose another name"),
        ({"TASK_SUBMISSION_ID": "x"}, "env 'TASK_SUBMISSION_ID' is set by Tidegate; choose another name"),
    ],
)
def test_an_environment_that_cannot_be_is_refused(env: Any, message: str) -> None:
    with pytest.raises(DagError) as caught:
        Dag("d").command("t", ["x"], env=env)
    with pytest.raises(DagError) as again:
        Dag("d").submit("t", "x.py", env=env)
    with pytest.raises(DagError) as decorated:
        Dag("d").task(task_id="t", env=env)(lambda spark, run: (spark, run))

    assert {str(each.value) for each in (caught, again, decorated)} == {f"DAG 'd', task 't': {message}"}


@pytest.mark.parametrize("name", ["", "../etc/passwd", ".hidden", "a/b", "line\n", 5])
def test_a_secret_whose_name_is_no_file_name_is_refused(name: Any) -> None:
    with pytest.raises(DagError, match=r"^DAG 'd', task 't': env"):
        Dag("d").command("t", ["x"], env={"A": Secret(name)})
