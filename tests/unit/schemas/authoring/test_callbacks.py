"""Deadlines and callbacks of the authoring API, and their serialised form."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta
from functools import partial
from typing import Any

import pytest

from tests.shapes import decode_spec
from tidegate import CallbackContext, Dag, DagError, Deadline, Email, Webhook, cron
from tidegate.schemas.authoring.options import SparkProgramOptions
from tidegate.schemas.dag import DagSpec, DeadlineSpec, encode_spec
from tidegate.schemas.graph import graph_of
from tidegate.schemas.receiver import Callback, EmailReceiver, FunctionReceiver, On, WebhookReceiver

OPS = EmailReceiver(("ops@example.org",))
HOOK = WebhookReceiver("https://example.org/hook")
TELL = FunctionReceiver("tell")


def tell(context: CallbackContext) -> None:
    """A callback."""


def tell_more(context: CallbackContext, *, loud: bool = True) -> None:
    """Another one."""


async def tell_later(context: CallbackContext) -> None:
    """One that cannot be."""


def elsewhere() -> Callable[[CallbackContext], None]:
    def tell(context: CallbackContext) -> None:
        """As the one above, by name."""

    return tell


def told(callbacks: tuple[Callback, ...]) -> list[tuple[str, object]]:
    return [(str(callback.on), callback.receiver) for callback in callbacks]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({"on_failure": Email("ops@example.org")}, [("failure", OPS)], id="one"),
        pytest.param(
            {"on_success": Webhook("https://example.org/hook", body={"text": "{headline}", "n": (1,)})},
            [("success", WebhookReceiver("https://example.org/hook", '{"text":"{headline}","n":[1]}'))],
            id="a webhook with a body",
        ),
        pytest.param(
            {"on_success": [Webhook("https://example.org/hook"), tell]}, [("success", HOOK), ("success", TELL)], id="a list"
        ),
        pytest.param(
            {"on_deadline": (tell,), "on_timeout": tell}, [("timeout", TELL), ("deadline", TELL)], id="one of two things"
        ),
        pytest.param({"on_failure": None}, [], id="no receiver"),
        pytest.param({"on_failure": []}, [], id="an empty list"),
    ],
)
def test_a_dag_has_receivers_of_its_runs(given: dict[str, Any], expected: list[tuple[str, object]]) -> None:
    assert told(Dag("d", **given).spec().callbacks) == expected


def test_a_task_has_receivers() -> None:
    dag = Dag("d")
    dag.command("load", ["true"], on_retry=Email("ops@example.org"), on_success=tell)

    (task,) = dag.spec().tasks

    assert told(task.callbacks) == [("success", TELL), ("retry", OPS)]


def test_default_args_of_some_kinds_apply_to_tasks_of_these() -> None:
    defaults: SparkProgramOptions = {"cluster": "nightly", "python": "/opt/bin/python", "env": {"A": "1"}, "retries": 3}
    with Dag("d", default_args=defaults) as dag:
        dag.empty("empty")
        dag.sql("sql", "SELECT 1")
        dag.sql("elsewhere", "SELECT 1", cluster=None)
        dag.submit("submit", "a.py", cluster="daily", python=None, env={"B": "2"})
        dag.command("command", ["ls"])
        dag.task(task_id="function")(lambda spark, run: (spark, run))

    found = {task.task_id: task for task in dag.spec().tasks}

    assert {task.retries for task in found.values()} == {3}
    assert {task_id: [getattr(task, name, None) for name in ("cluster", "python", "env")] for task_id, task in found.items()} == {
        "empty": [None, None, None],
        "sql": ["nightly", None, None],
        "elsewhere": ["", None, None],
        "submit": ["daily", "", {"B": "2"}],
        "command": [None, "/opt/bin/python", {"A": "1"}],
        "function": ["nightly", "/opt/bin/python", {"A": "1"}],
    }


def test_default_args_apply_unless_a_task_has_its_own() -> None:
    dag = Dag("d", default_args={"on_failure": tell, "on_retry": tell})
    dag.empty("a", on_retry=None)
    dag.empty("b", on_failure=Email("ops@example.org"))

    assert [told(task.callbacks) for task in dag.spec().tasks] == [
        [("failure", TELL)],
        [("failure", OPS), ("retry", TELL)],
    ]


def test_functions_are_found_again_by_their_names() -> None:
    dag = Dag("d", on_failure=tell, default_args={"on_success": tell_more})
    dag.empty("a")

    assert dict(dag.callback_functions) == {"tell": tell, "tell_more": tell_more}


@pytest.mark.parametrize(
    ("write", "expected"),
    [
        (lambda: Deadline("soon", after=timedelta(hours=1)), DeadlineSpec(name="soon", after_s=3600.0)),
        (
            lambda: Deadline("soon", after=timedelta(minutes=1), since="queued_at"),
            DeadlineSpec(name="soon", after_s=60.0, since="queued_at"),
        ),
        (lambda: Deadline("by nine", at=time(9, 0)), DeadlineSpec(name="by nine", at=time(9, 0), timezone="Europe/Zurich")),
    ],
)
def test_deadlines_of_dags_and_of_tasks_are_serialised(write: Callable[[], Deadline], expected: DeadlineSpec) -> None:
    dag = Dag("d", timezone="Europe/Zurich", deadlines=[write()])
    dag.empty("a", deadlines=(write(),))

    spec = decode_spec(encode_spec(dag.spec()))

    assert (spec.deadlines, spec.tasks[0].deadlines) == ((expected,), (expected,))


@pytest.mark.parametrize(
    ("given", "zone"),
    [
        ({}, "UTC"),
        ({"timezone": "Asia/Tokyo"}, "Asia/Tokyo"),
        ({"schedule": cron("0 3 * * *", timezone="Europe/Zurich")}, "Europe/Zurich"),
        ({"schedule": cron("0 3 * * *", timezone="Europe/Zurich"), "timezone": "Asia/Tokyo"}, "Asia/Tokyo"),
        ({"schedule": [datetime(2024, 1, 1, tzinfo=UTC)]}, "UTC"),
    ],
)
def test_a_time_of_day_is_one_of_the_dags_zone(given: dict[str, Any], zone: str) -> None:
    dag = Dag("d", deadlines=[Deadline("by nine", at=time(9, 0))], **given)

    assert dag.spec().deadlines[0].timezone == zone


def test_a_dag_without_receivers_is_serialised_without_callbacks() -> None:
    dag = Dag("d", on_failure=None, deadlines=[])
    dag.empty("a", on_failure=None, deadlines=[])

    assert encode_spec(dag.spec()) == b'{"dag_id":"d","tasks":[{"kind":"empty","task_id":"a"}]}'


@pytest.mark.parametrize(
    ("dag", "task", "has_deadlines", "watched"),
    [
        ({}, {}, False, False),
        ({"deadlines": [Deadline("x", at=time(9))]}, {}, True, False),
        ({}, {"deadlines": [Deadline("x", at=time(9))]}, True, True),
        ({}, {"on_retry": tell}, False, True),
        ({"on_failure": tell}, {}, False, False),
    ],
)
def test_a_graph_knows_whether_there_is_anything_to_watch(
    dag: dict[str, Any], task: dict[str, Any], has_deadlines: bool, watched: bool
) -> None:
    author = Dag("d", **dag)
    author.empty("a", **task)

    graph = graph_of(1, author.spec())

    assert (graph.has_deadlines, graph.watched) == (has_deadlines, watched)


MAIL = "write addresses like 'ops@example.org', in ASCII and without names, and a subject of 250 characters at most"
URL = "write an address like 'https://example.org/hook', in ASCII"
SPEC = "it needs a name of 1 to 250 characters, and since='logical_date' or 'queued_at'"
ONE = "write either after=timedelta(hours=1) or at=time(9, 0)"
AT = "at must be a time without a zone like time(9, 0)"
LISTED = "deadlines is a list like [Deadline('by nine', at=time(9, 0))]"
SHOWN = "<tidegate.schemas.authoring.callbacks.Deadline object>"
TAKES = "takes Email(…), Webhook(…), a function of the DAG file, or a list of them"
NO_FUNCTION = "is no function at the top level of the file, where it can be found by its name"

# What the types forbid is refused at run time, too.
REFUSED: list[tuple[Callable[[], object], str]] = [
    (Email, f"Email(): {MAIL}"),
    (lambda: Email("ops"), f"Email('ops'): {MAIL}"),
    (lambda: Email("ops@example.org", "dba"), f"Email('ops@example.org', 'dba'): {MAIL}"),
    (lambda: Email("Ops <ops@example.org>"), f"Email('Ops <ops@example.org>'): {MAIL}"),
    (lambda: Email("öps@example.org"), f"Email('öps@example.org'): {MAIL}"),
    (lambda: Email("a@b.c\nBcc: d@e.f"), f"Email('a@b.c\\nBcc: d@e.f'): {MAIL}"),
    (lambda: Email("a@b.c", subject="x" * 251), f"Email('a@b.c'): {MAIL}"),
    (lambda: Webhook("example.org"), f"Webhook('example.org'): {URL}"),
    (lambda: Webhook("ftp://example.org/"), f"Webhook('ftp://example.org/'): {URL}"),
    (
        lambda: Webhook("https://x", body={"text": "{headlin}"}),
        "Webhook('https://x'): body has {headlin}; did you mean headline?",
    ),
    (
        lambda: Webhook("https://x", body={"text": ["{xyz}"]}),
        "Webhook('https://x'): body has {xyz}; there are {headline}, {url}, {on}, {dag_id}, {run_id}, {task_id}, {state},"
        " {reason}, {at}",
    ),
    (
        lambda: Webhook("https://x", body="{headline}"),  # type: ignore[arg-type]  # as an author may write it
        "Webhook('https://x'): body is a dict like {\"text\": \"{headline} {url}\"}, not '{headline}'",
    ),
    (
        lambda: Webhook("https://x", body={"text": object()}),
        "Webhook('https://x'): body is no JSON: Encoding objects of type object is unsupported",
    ),
    (lambda: Webhook("https:///hook"), f"Webhook('https:///hook'): {URL}"),
    (lambda: Webhook("https://exämple.org/"), f"Webhook('https://exämple.org/'): {URL}"),
    (lambda: Webhook("https://example.org:99999/"), f"Webhook('https://example.org:99999/'): {URL}"),
    (lambda: Webhook("https://example.org:0/"), f"Webhook('https://example.org:0/'): {URL}"),
    (lambda: Deadline("x"), f"Deadline('x'): {ONE}"),
    (lambda: Deadline("x", after=timedelta(1), at=time(9)), f"Deadline('x'): {ONE}"),
    (lambda: Deadline("x", after=timedelta()), "Deadline('x'): after must be longer than 0"),
    (lambda: Deadline("x", after=timedelta(1), since="\ud800"), f"Deadline('x'): {SPEC}"),  # type: ignore[arg-type]
    (lambda: Deadline("x", after=timedelta(days=-1)), "Deadline('x'): after must not be negative"),
    (lambda: Deadline("x", after=timedelta(days=3651)), "Deadline('x'): after must not be longer than ten years"),
    (lambda: Deadline("x", after=5), "Deadline('x'): after must be a timedelta like timedelta(minutes=5), not 5"),  # type: ignore[arg-type]
    (lambda: Deadline("x", at="09:00"), f"Deadline('x'): {AT}, not '09:00'; it is in the DAG's"),  # type: ignore[arg-type]
    (
        lambda: Deadline("x", at=time(9, tzinfo=UTC)),
        f"Deadline('x'): {AT}, not datetime.time(9, 0, tzinfo=datetime.timezone.utc); it is in the DAG's",
    ),
    (lambda: Deadline("", at=time(9)), f"Deadline(''): {SPEC}"),
    (lambda: Deadline("x", after=timedelta(1), since="then"), f"Deadline('x'): {SPEC}"),  # type: ignore[arg-type]
    (lambda: Dag("d", deadlines=Deadline("x", at=time(9))), f"DAG 'd': {LISTED}, not {SHOWN}"),  # type: ignore[arg-type]
    (lambda: Dag("d", deadlines=[Deadline("x", at=time(9)), 1]), f"DAG 'd': {LISTED}, not [{SHOWN}, 1]"),  # type: ignore[list-item]
    (
        lambda: Dag("d", deadlines=[Deadline(name, at=time(9)) for name in "xyyx"]),
        "DAG 'd': two deadlines are called 'x'; each needs a name of its own",
    ),
    (
        lambda: Dag("d", timezone="Mars/Base", deadlines=[Deadline("x", at=time(9))]),
        "DAG 'd': there is no time zone 'Mars/Base'; write a name of the tz database, such as 'Europe/Zurich' or 'UTC'",
    ),
    (lambda: Dag("d", on_failure="ops@example.org"), f"DAG 'd': on_failure {TAKES}, not 'ops@example.org'"),  # type: ignore[arg-type]
    (
        lambda: Dag("d", on_failure=[Email]),  # type: ignore[list-item]
        f"DAG 'd': on_failure {TAKES}, not <class 'tidegate.schemas.authoring.callbacks.Email'>",
    ),
    (
        lambda: Dag("d", on_failure=lambda context: context),
        f"DAG 'd': on_failure: <function <lambda>.<locals>.<lambda>> {NO_FUNCTION}",
    ),
    (lambda: Dag("d", on_failure=elsewhere()), f"DAG 'd': on_failure: <function elsewhere.<locals>.tell> {NO_FUNCTION}"),
    (lambda: Dag("d", on_failure=partial(tell)), f"DAG 'd': on_failure: functools.partial(<function tell>) {NO_FUNCTION}"),
    (
        lambda: Dag("d", on_failure=tell_later),
        "DAG 'd': on_failure: tell_later must be a plain function, neither async nor a generator",
    ),
    (
        lambda: Dag("d", on_failure=no_parameter),  # type: ignore[arg-type]
        "DAG 'd': on_failure: no_parameter is called with (context), but its parameters are () -> None",
    ),
]


def no_parameter() -> None:
    """One that cannot be told anything."""


@pytest.mark.parametrize(("write", "says"), REFUSED, ids=[says[:40] for _, says in REFUSED])
def test_invalid_arguments_are_refused_with_a_hint(write: Callable[[], object], says: str) -> None:
    with pytest.raises(DagError) as refused:
        write()

    assert re.sub(" at 0x[0-9a-f]+", "", str(refused.value)) == says


def test_a_callable_with_a_name_is_a_function_of_the_file() -> None:
    named = partial(tell_more, loud=False)
    named.__name__ = "named"  # type: ignore[attr-defined]

    assert dict(Dag("d", on_failure=named).callback_functions) == {"named": named}


def test_two_functions_of_one_name_are_refused() -> None:
    other = elsewhere()
    other.__qualname__ = "tell"

    said = "two callbacks are called 'tell'; each function of a DAG needs a name of its own"
    with pytest.raises(DagError, match=f"^DAG 'd': {said}$"):
        Dag("d", on_failure=tell, on_success=other)
    with pytest.raises(DagError, match=f"^DAG 'd', task 'a': {said}$"):
        Dag("d", on_failure=tell).empty("a", on_success=other)


def test_every_occasion_is_an_option_of_tasks() -> None:
    dag = Dag("d")
    dag.empty("a", on_success=tell, on_failure=tell, on_retry=tell, on_timeout=tell, on_deadline=tell)

    assert [callback.on for callback in dag.spec().tasks[0].callbacks] == list(On)


def test_runs_are_never_retried() -> None:
    with pytest.raises(DagError, match="unknown argument on_retry"):
        Dag("d", on_retry=tell)  # type: ignore[arg-type]  # mypy says so, too


def test_a_receiver_of_an_unknown_kind_is_refused_where_it_is_read() -> None:
    with pytest.raises(ValueError, match="pager"):
        decode_spec(b'{"dag_id":"d","callbacks":[{"on":"failure","receiver":{"kind":"pager"}}]}')
    assert isinstance(decode_spec(b'{"dag_id":"d"}'), DagSpec)
