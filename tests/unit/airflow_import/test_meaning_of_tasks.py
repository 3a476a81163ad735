"""What the translation of a task means: its arguments, the tasks that it waits for, its decorators, and its text."""

import re

import pytest

from tests.unit.airflow_import.test_hostile import translated
from tests.unit.airflow_import.test_meaning import DAG_HEAD, HEAD, meaning
from tidegate import Dag
from tidegate.schemas.authoring.build import build

LOOP = """
    for table in ["a", "b"]:
        sql = f"from {table}"
        PythonOperator(task_id=f"load_{table}", python_callable=work, op_kwargs={"x": sql})
"""
SET_TWICE = """
    path = "first"
    PythonOperator(task_id="x", python_callable=work, op_args=[path])
    path = "second"
    PythonOperator(task_id="y", python_callable=work, op_args=[path])
"""
GROUPS = """
    @task
    def extract(table):
        return table
    @task_group
    def one(table):
        extract(table)
    one("first")
    one("second")
"""
IN_A_LOOP = """
    @task
    def load(x):
        return x
    for table in ["a", "b"]:
        load(table)
    load("c")
"""
MAPPED = """
    over = ["a"]
    @task
    def each(x):
        return x
    each.expand(x=over)
    over = ["b"]
    each.override(task_id="again").expand(x=over)
"""


@pytest.mark.parametrize(
    ("tasks", "results"),
    [
        (LOOP, {"load_a": "from a", "load_b": "from b"}),
        (SET_TWICE, {"x": "first", "y": "second"}),
        (GROUPS, {"one.extract": "first", "one__1.extract": "second"}),
        (IN_A_LOOP, {"load": "a", "load__1": "b", "load__2": "c"}),
        (MAPPED, {"each_x": ["a"], "each_x_2": ["b"]}),
    ],
)
def test_arguments_are_read_where_airflow_reads_them(tasks: str, results: dict[str, object]) -> None:
    source = f"{HEAD}from airflow.decorators import task_group\ndef work(x):\n    return x\n{DAG_HEAD}{tasks}"

    text, left_out = meaning(source)

    (dag,) = build(text, "file.py")
    ran = {task_id: function(None, None) for task_id, function in dag.functions.items() if task_id in results}
    assert (ran, left_out) == (results, [])


TWO_DAGS = """
from airflow.decorators import dag
@dag(schedule=None)
def first():
    {name} = "first"
    @task
    def e():
        return {read}
    e()
first()
@dag(schedule=None)
def second():
    bucket = "second"
    @task
    def e():
        return 2
    e()
second()
"""


@pytest.mark.parametrize(
    ("name", "read", "left_out"), [("bucket", "bucket", ["bucket of first in e"]), ("a", "a", []), ("bucket", "1", [])]
)
def test_variables_that_two_functions_of_dags_share_are_left_out(name: str, read: str, left_out: list[str]) -> None:
    result = translated(HEAD + TWO_DAGS.format(name=name, read=read))

    functions = [function for dag in build(result.text, "file.py") for function in dag.functions.values()]
    assert [part.what for part in result.omissions] == left_out
    assert [function(None, None) for function in functions][1] == 2
    assert [task.task_id for dag in build(result.text, "file.py") for task in dag.spec().tasks] == ["e", "e"]
    assert left_out or functions[0](None, None) == {"a": "first", "1": 1}[read]


def test_a_variable_of_a_group_that_is_called_twice_is_left_out_where_a_task_reads_it() -> None:
    group = "@task_group\ndef g(x):\n    @task\n    def show(): return x\n    show()\n"

    _, left_out = meaning(f"{HEAD}from airflow.decorators import task_group\n{group}{DAG_HEAD}    g(1)\n    g(2)\n")

    assert left_out == ["x of g in show"]


FLOW = "    @task\n    def f(x):\n        return x\n"


@pytest.mark.parametrize(
    ("lines", "left_out", "linked"),
    [
        ("outs = []\nfor i in 'ab':\n    outs.append(f.override(task_id=i)(i))\nf.override(task_id='t')(outs)", True, False),
        ("outs = {}\nfor i in 'ab':\n    outs[i] = f.override(task_id=i)(i)\nf.override(task_id='t')(outs)", True, False),
        ("outs = []\nfor i in 'ab':\n    outs += [f.override(task_id=i)(i)]\nf.override(task_id='t')([*outs])", True, False),
        ("outs = [f(1), f(2)]\nf.override(task_id='t')(outs)", True, False),
        ("f(0)\ni = 1\nouts = [EmptyOperator(task_id=i) for i in 'ab']\nf.override(task_id='t')(outs)", True, False),
        ("last = f(0)\nfor i in 'ab':\n    last = f.override(task_id=i)(last)", True, False),
        ("outs = [1]\nouts.append(2)\nf.override(task_id='t')(outs)", False, False),
        ("a = f(0)\nf.override(task_id='t').partial(y=a).expand(x=a)", True, False),
        ("f.override(task_id='t')([f(1), f(2)])", False, True),
        ("for i in 'ab':\n    a = f.override(task_id=i)(i)\n    f.override(task_id=i + 't')(a)", False, True),
        ("a = f(0)\nfor i in 'ab':\n    f.override(task_id=i)(a)", False, True),
    ],
)
def test_a_task_waits_for_the_tasks_whose_results_it_gets(lines: str, left_out: bool, linked: bool) -> None:
    text, found = meaning(HEAD + DAG_HEAD + FLOW + "".join(f"    {line}\n" for line in lines.splitlines()))

    (dag,) = build(text, "file.py")
    assert ([what.split()[0] for what in found], "command(" in text) == (["@task"] * left_out, left_out)
    assert any(task.upstream for task in dag.spec().tasks) == linked


@pytest.mark.parametrize(
    ("function", "expected", "left_out"),
    [
        ("@task\n@own\ndef f(): pass", "    @own\n    def f(): pass", []),
        ("@task\n@own\n@own\ndef f(): pass\nf()", "    @own\n    @own\n    def f(): pass", []),
        ("@setup\n@task(retries=3, pool='big', task_id='make')\ndef f(): pass", 'pool="big")\n    def make(', []),
        ("@setup\n@task.bash\ndef f(): return 'true'", 'subprocess.run(["bash", "-c", f()]', []),
        ("@teardown(on_failure_fail_dagrun=True)\n@task(retries=1)\ndef f(): pass", "on_failure_fail_dagrun=True", []),
        ("@own\n@task\ndef f(): pass", "Not translated", ["def f(): pass", "f()"]),
        ("@task\n@task.bash\ndef f(): pass", "Not translated", ["def f(): pass", "f()"]),
        ("import tenacity\n@task\n@tenacity.retry\ndef f(): pass", "Not translated", ["def f(): pass", "f()"]),
    ],
)
def test_each_decorator_is_kept_or_left_out(function: str, expected: str, left_out: list[str]) -> None:
    body = "".join(f"    {line}\n" for line in f"@setup\ndef s(): pass\ns()\n{function}\nf()".splitlines())

    text, found = meaning(f"{HEAD}def own(f): return f\n{DAG_HEAD}{body}")

    assert (expected in text, found) == (True, left_out), text


@pytest.mark.parametrize(
    ("tasks", "setups"),
    [
        ("s1()\nt1()", "s1"),
        ("a = s1()\nb = s2()\nt1(a)\nt2(b)", "s1 s2"),
        ("a = s1()\nb = s2()\nt1()", None),
    ],
)
def test_a_teardown_has_the_setups_that_it_is_about(tasks: str, setups: str | None) -> None:
    roles = {"s1": "setup", "s2": "setup", "t1": "teardown", "t2": "teardown"}
    functions = "".join(f"@{role}\ndef {name}(x=None): pass\n" for name, role in roles.items() if name in tasks)

    text, found = meaning(HEAD + functions + DAG_HEAD + "".join(f"    {line}\n" for line in tasks.splitlines()))

    written = re.findall(r"setups=\[(\w+)\]", text)
    assert (written, found) == ((setups or "").split(), [] if setups else ["@teardown"])
    assert setups or "as_teardown" not in text


@pytest.mark.parametrize(
    ("chosen", "ran"), [("None", ["join"]), ("[]", ["join"]), ("'a'", ["a", "join"]), ("['a', 'b']", ["a", "b", "join"])]
)
def test_a_branch_skips_the_tasks_directly_after_it(chosen: str, ran: list[str]) -> None:
    branch = f"    @task.branch\n    def choose():\n        return {chosen}\n"
    tasks = "".join(f"    {name} = EmptyOperator(task_id='{name}')\n" for name in "ab")
    join = "    choose() >> [a, b] >> EmptyOperator(task_id='join', trigger_rule='none_failed')\n"

    text, left_out = meaning(HEAD + DAG_HEAD + branch + tasks + join)

    (dag,) = build(text, "file.py")
    states = Dag.test(dag).run.states
    assert ([task_id for task_id in ("a", "b", "join") if states[task_id] == "success"], left_out) == (ran, [])


EMPTY = "[EmptyOperator(task_id='a'), EmptyOperator(task_id='b'), EmptyOperator(task_id='c')]"


@pytest.mark.parametrize(
    ("task", "expected", "left_out"),
    [
        ("BashOperator(task_id='t', bash_command=\"{{ ti.xcom_pull(task_ids=['p'])[0] }}\")", "{{ [results['p']][0] }}", []),
        ("BashOperator(task_id='t', bash_command=\"{{ ti.xcom_pull(task_ids='p') }}\")", "{{ results['p'] }}", []),
        (
            "PythonOperator(task_id='t', python_callable=f, op_args=['{{ data_interval_start }}'])",
            "f(str(run.data_interval_start))",
            [],
        ),
        ("PythonOperator(task_id='t', python_callable=f, op_args=['{{ params }}'])", "f(str(run.params))", []),
        ("PythonOperator(task_id='t', python_callable=f, op_args=['{{ ds }}'])", "f(run.ds)", []),
        ("PostgresOperator(task_id='t', sql='DELETE FROM a')", "dag.sql(", ["the database of PostgresOperator"]),
        ("SnowflakeOperator(task_id='t', sql='SELECT 1')", "dag.sql(", ["the database of SnowflakeOperator"]),
        ("PostgresOperator(task_id='t', sql='SELECT 1', conn_id='w')", "dag.sql(", ["conn_id= of PostgresOperator"]),
        ("SparkSqlOperator(task_id='t', sql='SELECT 1')", "dag.sql(", []),
        ("HiveOperator(task_id='t', hql='SELECT 1')", "dag.sql(", []),
        (
            "a, b, c = EMPTY\n    a >> Label('x') >> b << c",
            "a >> b << c",
            ["Label('x')"],
        ),
        ("a, b, c = EMPTY\n    a << Label('x') << b", "a << b", ["Label('x')"]),
        (
            "import urllib.request, urllib.parse\n    PythonOperator(task_id='t', python_callable=urllib.parse.quote)",
            "import urllib.parse\nimport urllib.request",
            [],
        ),
        (
            "import google.a, google.b\n    def g(): return google\n    PythonOperator(task_id='t', python_callable=g)",
            "import google.a, google.b",
            [],
        ),
    ],
)
def test_a_task_means_what_it_means_in_airflow(task: str, expected: str, left_out: list[str]) -> None:
    names = ("postgres.operators.postgres import PostgresOperator", "snowflake.operators.snowflake import SnowflakeOperator")
    more = ("apache.spark.operators.spark_sql import SparkSqlOperator", "apache.hive.operators.hive import HiveOperator")
    imports = "".join(f"from airflow.providers.{name}\n" for name in (*names, *more))
    label = "from airflow.utils.edgemodifier import Label\n"

    text, found = meaning(f"{HEAD}{imports}{label}def f(x): pass\n{DAG_HEAD}    {task.replace('EMPTY', EMPTY)}\n")

    assert (expected in text, found) == (True, left_out), text


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("datetime.fromisoformat('2026-01-01')", 'datetime.fromisoformat("2026-01-01").replace(tzinfo=UTC)'),
        ("datetime.fromisoformat('2026-01-01T00:00:00+02:00')", None),
        ("datetime.fromisoformat('never')", None),
        ("datetime.fromisoformat(os.environ['A'])", None),
        ("datetime.strptime('2026', '%Y')", 'datetime.strptime("2026", "%Y").replace(tzinfo=UTC)'),
        ("datetime.strptime('2026 +0200', '%Y %z')", None),
        ("datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=2)))", None),
        ("datetime(2026, 1, 1, tzinfo=timezone.utc)", "datetime(2026, 1, 1, tzinfo=timezone.utc)"),
        ("datetime(2026, 1, 1)", "datetime(2026, 1, 1, tzinfo=UTC)"),
    ],
)
@pytest.mark.parametrize("named", [False, True])
def test_a_start_in_a_zone_without_a_name_is_left_out(start: str, expected: str | None, named: bool) -> None:
    before, value = (f"START = {start}\n", "START") if named else ("", start)

    result = translated(f"{HEAD}{before}with DAG('d', schedule=None, start_date={value}):\n    pass\n")

    assert [part.what for part in result.omissions] == ([] if expected else ["start_date= of DAG"])
    assert ("start_date=" in result.text) == (expected is not None)
    assert named or expected is None or expected in result.text
    assert expected is None or build(result.text, "file.py")


def test_a_task_that_is_left_out_fails_and_keeps_its_place() -> None:
    text, left_out = meaning(f"{HEAD}{DAG_HEAD}{FLOW}    f.override(task_id='after')(f(missing))\n")

    (dag,) = build(text, "file.py")
    assert {task.task_id: task.upstream for task in dag.spec().tasks} == {"f": (), "after": ("f",)}
    assert left_out == ["@task 'f'"]
