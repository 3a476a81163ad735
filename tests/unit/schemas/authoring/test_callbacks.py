"""Deadlines and callbacks of the authoring API, and their serialised form."""

from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta
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

    found = {task.task_id: task for task in dag.spec().tasks}

    assert {task.retries for task in found.values()} == {3}
    assert {task_id: [getattr(task, name, None) for name in ("cluster", "python", "env")] for task_id, task in found.items()} == {
        "empty": [None, None, None],
        "sql": ["nightly", None, None],
        "elsewhere": ["", None, None],
        "submit": ["daily", "", {"B": "2"}],
        "command": [None, "/opt/bin/python", {"A": "1"}],
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
    ("deadline", "expected"),
    [
        (Deadline("soon", after=timedelta(hours=1)), DeadlineSpec(name="soon", after_s=3600.0)),
        (
            Deadline("soon", after=timedelta(minutes=1), since="queued_at"),
            DeadlineSpec(name="soon", after_s=60.0, since="queued_at"),
        ),
        (Deadline("by nine", at=time(9, 0)), DeadlineSpec(name="by nine", at=time(9, 0), timezone="Europe/Zurich")),
    ],
)
def test_deadlines_of_dags_and_of_tasks_are_serialised(deadline: Deadline, expected: DeadlineSpec) -> None:
    dag = Dag("d", timezone="Europe/Zurich", deadlines=[deadline])
    dag.empty("a", deadlines=[deadline])

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


# What the types forbid is refused at run time, too.
REFUSED: list[tuple[Callable[[], object], str]] = [
    (Email, "Email(): write addresses like 'ops@example.org'"),
    (lambda: Email("ops"), "Email('ops'): write addresses like"),
    (lambda: Email("Ops <ops@example.org>"), "write addresses like"),
    (lambda: Email("öps@example.org"), "in ASCII"),
    (lambda: Email("a@b.c\nBcc: d@e.f"), "write addresses like"),
    (lambda: Email("a@b.c", subject="x" * 251), "a subject of 250 characters at most"),
    (lambda: Webhook("example.org"), "Webhook('example.org'): write an address like 'https://example.org/hook'"),
    (lambda: Webhook("ftp://example.org/"), "write an address like"),
    (lambda: Webhook("https:///hook"), "write an address like"),
    (lambda: Webhook("https://exämple.org/"), "in ASCII"),
    (lambda: Webhook("https://example.org:99999/"), "write an address like"),
    (lambda: Webhook("https://example.org:0/"), "write an address like"),
    (lambda: Deadline("x"), "write either after=timedelta(hours=1) or at=time(9, 0)"),
    (lambda: Deadline("x", after=timedelta(1), at=time(9)), "write either"),
    (lambda: Deadline("x", after=timedelta()), "after must be longer than 0"),
    (lambda: Deadline("x", after=timedelta(1), since="\ud800"), "since='logical_date'"),  # type: ignore[arg-type]
    (lambda: Deadline("x", after=timedelta(days=-1)), "after must not be negative"),
    (lambda: Deadline("x", after=timedelta(days=3651)), "after must not be longer than ten years"),
    (lambda: Deadline("x", after=5), "after must be a timedelta"),  # type: ignore[arg-type]
    (lambda: Deadline("x", at="09:00"), "at must be a time without a zone"),  # type: ignore[arg-type]
    (lambda: Deadline("x", at=time(9, tzinfo=UTC)), "at must be a time without a zone"),
    (lambda: Deadline("", at=time(9)), "it needs a name"),
    (lambda: Deadline("x", after=timedelta(1), since="then"), "since='logical_date' or 'queued_at'"),  # type: ignore[arg-type]
    (lambda: Dag("d", deadlines=Deadline("x", at=time(9))), "deadlines is a list"),  # type: ignore[arg-type]
    (lambda: Dag("d", deadlines=[Deadline("x", at=time(9)), Deadline("x", at=time(8))]), "two deadlines are called 'x'"),
    (lambda: Dag("d", timezone="Mars/Base", deadlines=[Deadline("x", at=time(9))]), "there is no time zone 'Mars/Base'"),
    (lambda: Dag("d", on_failure="ops@example.org"), "on_failure takes Email(…), Webhook(…), a function"),  # type: ignore[arg-type]
    (lambda: Dag("d", on_failure=[Email]), "on_failure takes Email(…)"),  # type: ignore[list-item]
    (lambda: Dag("d", on_failure=lambda context: context), "is no function at the top level of the file"),
    (lambda: Dag("d", on_failure=elsewhere()), "is no function at the top level of the file"),
    (lambda: Dag("d", on_failure=tell_later), "tell_later must be a plain function"),
    (lambda: Dag("d", on_failure=no_parameter), "no_parameter is called with (context), but its parameters are ()"),  # type: ignore[arg-type]
]


def no_parameter() -> None:
    """One that cannot be told anything."""


@pytest.mark.parametrize(("write", "says"), REFUSED, ids=[says[:40] for _, says in REFUSED])
def test_invalid_arguments_are_refused_with_a_hint(write: Callable[[], object], says: str) -> None:
    with pytest.raises(DagError) as refused:
        write()

    assert says in str(refused.value)


def test_two_functions_of_one_name_are_refused() -> None:
    other = elsewhere()
    other.__qualname__ = "tell"

    with pytest.raises(DagError, match="two callbacks are called 'tell'"):
        Dag("d", on_failure=tell, on_success=other)


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
