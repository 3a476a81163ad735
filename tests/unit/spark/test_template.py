"""Templates of tasks."""

from datetime import UTC, datetime

import pytest

from tidegate.daemon.spark.runner.blame import TaskError
from tidegate.daemon.spark.runner.template import render
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


@pytest.mark.parametrize(
    ("text", "rendered"),
    [
        ("{{ run_id }} of {{ dag_id }}", "dataset__1 of delays"),
        ("day = '{{ run.params.day }}'", "day = '2013-01-01'"),
        ("{{ params['day'] }}\n", "2013-01-01\n"),
        ("{% for event in events %}{{ event.uri }}:{{ event.extra.rows }}{% endfor %}", "lake://flights:842"),
        ("<{{ '&' }}>", "<&>"),
        ("no template", "no template"),
    ],
)
def test_a_template_sees_the_run(text: str, rendered: str) -> None:
    assert render(text, RUN, "the SQL") == rendered


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{{ params.week }}", "the SQL cannot be rendered: there is no 'week' among 'day'"),
        ("{{ weekday }}", "the SQL cannot be rendered: there is no 'weekday'; there are run, run_id, dag_id, params, events"),
        ("{{ run.owner }}", "the SQL cannot be rendered: there is no 'owner' in RunContext"),
        ("{{ 1 / 0 }}", "the SQL cannot be rendered: division by zero"),
        ("a\n{% if %}", "the SQL is not a valid template: Expected an expression, got 'end of statement block' (line 2)"),
        (
            "{{ run.__class__.__mro__ }}",
            "the SQL cannot be rendered: access to attribute '__class__' of 'RunContext' object is unsafe.",
        ),
        ("{{ params.update(x=1) }}", "the SQL cannot be rendered: access to attribute 'update' of 'dict' object is unsafe."),
    ],
)
def test_a_template_that_cannot_be_rendered_says_why(text: str, reason: str) -> None:
    with pytest.raises(TaskError) as raised:
        render(text, RUN, "the SQL")

    assert str(raised.value) == reason
