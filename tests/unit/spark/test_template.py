"""Templates of tasks."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import msgspec
import pytest

from tidegate.daemon.spark.contract import SubmissionSpec
from tidegate.daemon.spark.runner.failure_reason import TaskError
from tidegate.daemon.spark.runner.template import dates_needed, mistakes, render
from tidegate.schemas.dag import SqlTask
from tidegate.schemas.params import Params, ParamSpec
from tidegate.schemas.run import ConsumedEvent, RunContext

AT = datetime(2013, 1, 1, tzinfo=UTC)
RUN = RunContext(
    dag_id="delays",
    run_id="dataset__1",
    run_type="dataset",
    run_after=AT,
    params={"day": "2013-01-01"},
    events=(ConsumedEvent(uri="lake://flights", source="s", id="1", occurred_at=AT, extra={"rows": 842}),),
)

SPEC = SubmissionSpec(
    submission_id=UUID(int=1),
    try_number=2,
    task=SqlTask(task_id="report", sql="SELECT 1", upstream=("counts", "days", "load"), over="days"),
    run=RUN,
    dag_path="daily.py",
    source="",
)
DATED = msgspec.structs.replace(
    SPEC,
    run=msgspec.structs.replace(
        RUN,
        run_id="scheduled__1",
        logical_date=AT,
        data_interval_start=AT - timedelta(days=1),
        data_interval_end=AT,
        results={"count": {"rows": 842}},
    ),
)


@pytest.mark.parametrize(
    ("text", "rendered"),
    [
        ("{{ run_id }} of {{ dag_id }}", "dataset__1 of delays"),
        ("day = '{{ run.params.day }}'", "day = '2013-01-01'"),
        ("{{ params['day'] }}\n", "2013-01-01\n"),
        ("{% for event in events %}{{ event.uri }}:{{ event.extra.rows }}{% endfor %}", "lake://flights:842"),
        ("<{{ '&' }}>", "<&>"),
        ("no template", "no template"),
        ("{{ task_id }} {{ try_number }} {{ run_after }}", "report 2 2013-01-01 00:00:00+00:00"),
        ("{{ triggering_dataset_events['lake://flights'][0].id }}", "1"),
    ],
)
def test_a_template_sees_the_run(text: str, rendered: str) -> None:
    assert render(text, SPEC, "the SQL") == rendered


@pytest.mark.parametrize(
    ("text", "rendered"),
    [
        ("{{ ds }} {{ ds_nodash }}", "2013-01-01 20130101"),
        ("{{ ts }} {{ ts_nodash }}", "2013-01-01T00:00:00+00:00 20130101T000000"),
        ("{{ logical_date.year }}", "2013"),
        ("{{ data_interval_start.date() }} {{ data_interval_end.date() }}", "2012-12-31 2013-01-01"),
        ("{{ results.count.rows }}", "842"),
        ("{{ macros.ds_add(ds, -1) }} {{ macros.ds_add('2024-02-28', 2) }}", "2012-12-31 2024-03-01"),
        ("{{ macros.ds_format(ds, '%Y-%m-%d', '%d.%m.%y') }}", "01.01.13"),
        ("{{ (logical_date - macros.timedelta(hours=1)) | ds }} {{ logical_date | ds_nodash }}", "2012-12-31 20130101"),
        ("{{ data_interval_end | ts }} {{ run_after | ts_nodash }}", "2013-01-01T00:00:00+00:00 20130101T000000"),
        ("{{ logical_date | in_timezone('Pacific/Auckland') | ts }}", "2013-01-01T13:00:00+13:00"),
        ("{{ macros.datetime(2024, 5, 1) | ds }}", "2024-05-01"),
    ],
)
def test_a_template_of_a_dated_run_sees_its_dates_and_what_tasks_before_it_returned(text: str, rendered: str) -> None:
    assert render(text, DATED, "the SQL") == rendered


@pytest.mark.parametrize("name", ["ds", "ts", "logical_date", "data_interval_start"])
def test_a_run_without_a_logical_date_has_no_dates(name: str) -> None:
    with pytest.raises(TaskError) as raised:
        render(f"{{{{ {name} }}}}", SPEC, "the SQL")

    why = f"run 'dataset__1' has no logical date, so there is no {name!r}"
    assert str(raised.value) == f"the SQL of task 'report' cannot be rendered: {why}"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{{ params.week }}", "the SQL of task 'report' cannot be rendered: there is no 'week' among 'day'"),
        (
            "{{ results.count }}",
            "the SQL of task 'report' cannot be rendered: there is no 'count' in results; did you mean counts?",
        ),
        (
            "{{ run.results['load'] }}",
            "the SQL of task 'report' cannot be rendered: task 'load' has no result: it returned None or a value that JSON does "
            "not have, or did not succeed",
        ),
        (
            "{{ results.days }}",
            "the SQL of task 'report' cannot be rendered: there is no 'days' in results: an instance has its element of that "
            "list as item",
        ),
        (
            "{{ events[0].extra.day }}",
            "the SQL of task 'report' cannot be rendered: there is no 'day' among 'rows'",
        ),
        (
            "{{ macros.ds_add('today', 1) }}",
            "the SQL of task 'report' cannot be rendered: time data 'today' does not match format '%Y-%m-%d'",
        ),
        (
            "{{ run_after | in_timezone('Mars/Base') }}",
            "the SQL of task 'report' cannot be rendered: there is no time zone 'Mars/Base'; write a name of the tz"
            " database, such as 'Europe/Zurich' or 'UTC'",
        ),
        (
            "{{ '2013-01-01' | ds }}",
            "the SQL of task 'report' cannot be rendered: 'str' object has no attribute 'strftime'",
        ),
        ("{{ params.x.y }}", "the SQL of task 'report' cannot be rendered: there is no 'x' among 'day'"),
        ("{{ {}.x }}", "the SQL of task 'report' cannot be rendered: there is no 'x' in an empty object"),
        (
            "{{ execution_date }}",
            "the SQL of task 'report' cannot be rendered: there is no 'execution_date'; did you mean logical_date?",
        ),
        (
            "{{ weekday }}",
            "the SQL of task 'report' cannot be rendered: there is no 'weekday'; there are run, run_id, dag_id, task_id, "
            "try_number, params, run_after, events, triggering_dataset_events, results, item, map_index, macros, "
            "logical_date, data_interval_start, data_interval_end, ds, ds_nodash, ts, ts_nodash",
        ),
        ("{{ run.owner }}", "the SQL of task 'report' cannot be rendered: there is no 'owner' in RunContext"),
        ("{{ 1 / 0 }}", "the SQL of task 'report' cannot be rendered: division by zero"),
        (
            "a\n{% if %}",
            "the SQL of task 'report' is not a valid template: Expected an expression, got 'end of statement block' (line 2)",
        ),
        (
            "{{ run.__class__.__mro__ }}",
            "the SQL of task 'report' cannot be rendered: access to attribute '__class__' of 'RunContext' object is unsafe.",
        ),
        (
            "{{ params.update(x=1) }}",
            "the SQL of task 'report' cannot be rendered: access to attribute 'update' of 'dict' object is unsafe.",
        ),
    ],
)
def test_a_template_that_cannot_be_rendered_says_why(text: str, reason: str) -> None:
    with pytest.raises(TaskError) as raised:
        render(text, SPEC, "the SQL")

    assert str(raised.value) == reason


@pytest.mark.parametrize(
    "text",
    [
        "no template",
        "{{ run_id }} {{ run.ds }} {{ run.params.day }} {{ params.any }} {{ events[0].extra.rows }}",
        "{% for event in events %}{{ event.uri }}{{ loop.index }}{% endfor %}",
        "{% set day = ds %}{{ day }} {% for n in range(3) %}{{ n }}{% endfor %}",
        "{{ results.count.rows }} {{ results['count'] }} {{ results.items() }} {{ results[item] }}",
        "{{ week | default('none') }}{% if owner is defined %}{{ owner }}{% endif %}",
        "{% if results.other is defined %}{{ results.other }}{% endif %}",
        "{% for run in [params] %}{{ run.owner }}{% endfor %}",
    ],
)
def test_a_template_that_a_run_can_render_has_no_mistake(text: str) -> None:
    assert list(mistakes(text, ["count"])) == []


OF_PYTHON = "a datetime of Python"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a\n{% if %}", ["is not a valid template: Expected an expression, got 'end of statement block' (line 2)"]),
        ("{{ ds | ds_short }}", ["is not a valid template: No filter named 'ds_short'. (line 1)"]),
        ("{{ macros.ds_ad(ds, 1) }}", ["cannot be rendered: there is no 'ds_ad' in macros; did you mean ds_add?"]),
        (
            "{{ macros.random() }}",
            ["cannot be rendered: there is no 'random' in macros; there are datetime, timedelta, ds_add, ds_format"],
        ),
        ("{{ run_ids }}", ["cannot be rendered: there is no 'run_ids'; did you mean run_id?"]),
        ("{{ execution_date }}", ["cannot be rendered: there is no 'execution_date'; did you mean logical_date?"]),
        ("{{ run.parms }}", ["cannot be rendered: there is no 'parms' in run; did you mean params?"]),
        ("{{ run.owner }}", ["cannot be rendered: there is no 'owner' in run"]),
        ("{{ logical_date.nosuch }}", [f"cannot be rendered: there is no 'nosuch' in logical_date, {OF_PYTHON}"]),
        ("{{ run_after.hours }}", [f"cannot be rendered: there is no 'hours' in run_after, {OF_PYTHON}; did you mean hour?"]),
        ("{{ results.cuont }}", ["cannot be rendered: there is no 'cuont' in results; did you mean count?"]),
        ("{{ results['x'] }}", ["cannot be rendered: there is no 'x' in results; the tasks directly before it are count"]),
        (
            "{{ tss }}{{ parms }}",
            ["cannot be rendered: there is no " + hint for hint in ("'parms'; did you mean params?", "'tss'; did you mean ts?")],
        ),
        (f"{{{{ {'(' * 5000}1{')' * 5000} }}}}", ["is not a valid template: it is nested too deeply"]),
    ],
)
def test_mistakes_of_a_template_are_known_before_a_run(text: str, found: list[str]) -> None:
    assert list(mistakes(text, ["count"])) == found


@pytest.mark.parametrize(
    ("params", "found"),
    [
        (Params({"country": ParamSpec()}), ["cannot be rendered: there is no 'contry' in params; did you mean country?"]),
        (Params({"country": ParamSpec()}, extra=True), []),
        (Params(), []),
    ],
)
def test_params_that_a_conf_cannot_have_are_known_before_a_run(params: Params, found: list[str]) -> None:
    text = "{{ params.contry }}{{ params.country }}{{ params.get('x') }}{{ params.y | default(1) }}"

    assert list(mistakes(text, [], params=params)) == found


@pytest.mark.timeout(10)
@pytest.mark.parametrize("text", ["{{ %s }}", "{% if %s %}{% endif %}", "{{ -%s | string }}", "{% set a = [%s] %}"])
def test_a_template_is_not_evaluated_when_it_is_checked(text: str) -> None:
    endless = "(9 ** (9 ** 9))"

    assert list(mistakes(text.replace("%s", endless), [])) == []


def test_an_unknown_name_that_is_like_no_other_is_told_with_all_names() -> None:
    (mistake,) = mistakes("{{ weekday }} {{ weekday }}", [])

    assert mistake.startswith("cannot be rendered: there is no 'weekday'; there are run, run_id, dag_id, ")


@pytest.mark.parametrize(
    ("text", "needed"),
    [
        ("{{ ds }}", ["ds"]),
        ("{{ ts_nodash }} {{ ds }}", ["ds", "ts_nodash"]),
        ("{{ data_interval_start.year }}", ["data_interval_start"]),
        ("{% if ds %}a{% endif %}", ["ds"]),
        ("{{ ds or run_id }}", ["ds"]),
        ("{{ ds | upper }}", ["ds"]),
        ("{{ run_id or ds }}", []),
        ("{{ run_after and run_id }}", []),
        ("{% if run.logical_date %}{{ ds }}{% endif %}", []),
        ("{{ ds if run.logical_date else run_id }}", []),
        ("{{ ds | default(run_id) }}", []),
        ("{{ ds if ds is defined else run_id }}", []),
        ("{% set ds = run_id %}{{ ds }}", []),
        ("{% for event in results %}{{ ds }}{% endfor %}", []),
        ("{% macro day() %}{{ ds }}{% endmacro %}", []),
        ("{{ run.ds }}", []),
    ],
)
def test_the_dates_that_a_template_needs_are_those_that_fail_a_run_without_them(text: str, needed: list[str]) -> None:
    assert dates_needed(text) == needed
    render(text, DATED, "the SQL")
    if needed:
        with pytest.raises(TaskError, match="no logical date"):
            render(text, SPEC, "the SQL")
    else:
        render(text, SPEC, "the SQL")


@pytest.mark.parametrize("text", ["{{ ds", "{{ " + "(" * 5000 + "ds" + ")" * 5000 + " }}"])
def test_a_template_that_is_not_valid_needs_no_dates(text: str) -> None:
    assert dates_needed(text) == []
