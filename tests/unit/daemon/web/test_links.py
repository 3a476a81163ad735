"""Links to other systems: which templates are accepted, and that no value leaves its place."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import msgspec
import pytest

from tidegate.daemon.settings import Settings, SettingsError
from tidegate.daemon.web.links import links_of
from tidegate.schemas.queries.datasets import EventRow
from tidegate.schemas.queries.run_pages import RunAttemptRow, RunRow
from tidegate.schemas.wire.event import Producer

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
NONE = Settings(postgres_dsn="", kafka_servers="")


def row(type_: Any, **given: Any) -> Any:
    """A row of the database, whose other fields are None."""
    return type_(**{**dict.fromkeys(type_.__struct_fields__), **given})


ATTEMPT = row(RunAttemptRow, submission_id=UUID(int=7), task_id="load", map_index=3, try_number=2, backend="connect")
RUN = row(RunRow, dag_id="d", run_id="r/../?x=1#y")


def event(source: str = "a", producer: Producer | None = None) -> EventRow:
    return EventRow(1, "lake://x?y", source, "1", NOON, NOON, {}, producer)


def links(**given: Any) -> Any:
    return links_of(msgspec.structs.replace(NONE, **given))


def test_a_template_makes_an_address_of_encoded_values() -> None:
    made = links(
        spark_ui_url="https://spark.example:18080/a/{submission_id}/{run_id}?t={task_id}&n={try_number}&{{}}{host}",
        producer_url="http://jobs.example/{source}/{id}?of={uri}",
    )

    assert made.spark_ui(RUN, ATTEMPT) == (
        "https://spark.example:18080/a/00000000-0000-0000-0000-000000000007/r%2F..%2F%3Fx%3D1%23y?t=load%5B3%5D&n=2&{}"
    )
    assert made.producer(event('"><script>/..')) == ("http://jobs.example/%22%3E%3Cscript%3E%2F../1?of=lake%3A%2F%2Fx%3Fy")


@pytest.mark.parametrize(("source", "address"), [(".", ""), ("..", ""), ("...", "http://jobs.example/.../1/lake%3A%2F%2Fx%3Fy")])
def test_a_value_of_dots_makes_no_link(source: str, address: str) -> None:
    made = links(producer_url="http://jobs.example/{source}/{id}/{uri}", spark_ui_url="http://spark.example/?of={host}")

    assert made.producer(event(source)) == address
    assert made.spark_ui(RUN, msgspec.structs.replace(ATTEMPT, host="..")) == "http://spark.example/?of=.."


def test_without_a_template_and_for_events_of_tasks_there_is_no_link() -> None:
    task = Producer(dag_id="d", run_id="r", task_id="t", map_index=None)

    assert (links().spark_ui(RUN, ATTEMPT), links().producer(event())) == ("", "")
    assert links(producer_url="http://jobs.example/").producer(event(producer=task)) == ""


@pytest.mark.parametrize(
    "text",
    [
        "javascript:alert(1)",
        "//spark.example/{run_id}",
        "spark.example/{run_id}",
        "ftp://spark.example/",
        "https://{host}/",
        "https://spark.example.{host}/",
        "https://spark.example",
        "https:///a",
        "https://[/a",
        "https://spark.example/{run_id",
        "https://spark.example/{}",
        "https://spark.example/{password}",
        "https://spark.example/{run_id.__class__}",
        "https://spark.example/{run_id!r}",
        "https://spark.example/{run_id:>9}",
    ],
)
def test_another_template_is_refused_by_name(text: str) -> None:
    with pytest.raises(SettingsError, match=r"^TIDEGATE_SPARK_UI_URL "):
        links(spark_ui_url=text)
