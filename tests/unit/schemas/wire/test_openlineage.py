"""OpenLineage run events as dataset updates: identity, URI and rejections."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from tests.unit.schemas.wire.envelopes import OUT_OF_RANGE
from tidegate.schemas.error import RejectedError
from tidegate.schemas.wire.envelope import decode
from tidegate.schemas.wire.event import DatasetUpdated, Kind, Rejection
from tidegate.schemas.wire.openlineage import LineageEvent, Update, uri_of

RUN = "01a1fffa-24eb-7f61-8cf7-5388a1d474d5"
SCHEMA = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/"


def output(name: str = "flights", **more: Any) -> dict[str, Any]:
    return {"namespace": "s3://lake", "name": name, **more}


def event(*outputs: dict[str, Any], **other: Any) -> dict[str, Any]:
    return {
        "eventType": "COMPLETE",
        "eventTime": "2026-03-29T12:00:00.5+02:00",
        "producer": "https://example.org/producer",
        "schemaURL": f"{SCHEMA}RunEvent",
        "run": {"runId": RUN},
        "job": {"namespace": "etl", "name": "load"},
        "inputs": [output("never")],
        "outputs": list(outputs),
        **other,
    }


def versioned(version: str | int) -> dict[str, Any]:
    return {"version": {"datasetVersion": version}}


def read(said: dict[str, Any]) -> LineageEvent:
    _, found = decode(Kind.DATASET_UPDATED, [], msgspec.json.encode(said))
    assert isinstance(found, LineageEvent)
    return found


def updates(*outputs: dict[str, Any], **other: Any) -> tuple[Update, ...]:
    return read(event(*outputs, **other)).updates


def test_a_complete_run_updated_each_of_its_outputs() -> None:
    found = updates(output("flights"), output("weather"))

    assert [update.uri for update in found] == ["s3://lake/flights", "s3://lake/weather"]
    assert {update.at for update in found} == {datetime(2026, 3, 29, 10, 0, 0, 500_000, tzinfo=UTC)}
    assert len({update.id for update in found}) == 2


def test_what_the_facets_say_is_in_extra() -> None:
    facets = {
        **versioned("8271"),
        "lifecycleStateChange": {"lifecycleStateChange": "OVERWRITE"},
        "symlinks": {"identifiers": [{"namespace": "hive://meta:9083", "name": "lake.flights", "type": "TABLE"}]},
        "schema": {"fields": []},
    }
    statistics = {"outputStatistics": {"rowCount": 10, "size": 984, "fileCount": 2}}
    nominal = {"nominalTime": {"nominalStartTime": "2026-03-28T00:00:00Z", "nominalEndTime": "2026-03-29T00:00:00Z"}}

    (update,) = updates(output(facets=facets, outputFacets=statistics), run={"runId": RUN, "facets": nominal})

    assert update.extra == {
        "run_id": RUN,
        "job": "etl/load",
        "row_count": 10,
        "size": 984,
        "file_count": 2,
        "dataset_version": "8271",
        "lifecycle_state_change": "OVERWRITE",
        "nominal_start_time": "2026-03-28T00:00:00Z",
        "nominal_end_time": "2026-03-29T00:00:00Z",
        "symlinks": ["hive://meta:9083/lake.flights"],
    }


def test_absent_facets_are_not_in_extra() -> None:
    (update,) = updates(output(facets={}, outputFacets=None))

    assert update.extra == {"run_id": RUN, "job": "etl/load"}


OTHER_RUN = {"runId": "01a1fffa-30f8-7c96-9564-54649e6c923e"}

IDENTITIES = {
    "said again later": (event(output(), eventTime="2026-03-29T13:00:00Z"), True),
    "with other numbers": (event(output(outputFacets={"outputStatistics": {"rowCount": 3}})), True),
    "in another place of the record": (event(output("weather"), output()), True),
    "by another run": (event(output(), run=OTHER_RUN), False),
    "in another version": (event(output(facets=versioned("2"))), False),
    "in another version that is a number": (event(output(facets=versioned(2))), False),
    "in another namespace": (event(output(namespace="s3://other")), False),
}


@pytest.mark.parametrize("case", IDENTITIES)
def test_the_same_run_dataset_and_version_are_the_same_event(case: str) -> None:
    said, is_same = IDENTITIES[case]
    (first,) = updates(output())

    ids = {update.id for update in read(said).updates}

    assert (first.id in ids) is is_same


@pytest.mark.parametrize("kind", ["START", "RUNNING", "ABORT", "FAIL", "OTHER"])
def test_only_a_complete_run_updates_anything(kind: str) -> None:
    found = read(event(output(), eventType=kind))

    assert found == LineageEvent(what=kind, run_id=RUN, failed=kind in ("ABORT", "FAIL"))


@pytest.mark.parametrize("outputs", [[], None])
def test_a_complete_run_may_have_written_nothing(outputs: list[Any] | None) -> None:
    found = read({**event(), "outputs": outputs})

    assert (found.what, found.updates) == ("COMPLETE", ())


def test_a_dataset_that_was_dropped_has_no_new_data() -> None:
    found = updates(output("old", facets={"lifecycleStateChange": {"lifecycleStateChange": "DROP"}}), output("new"))

    assert [update.uri for update in found] == ["s3://lake/new"]


@pytest.mark.parametrize("about", ["DatasetEvent", "JobEvent"])
def test_dataset_and_job_events_are_no_updates(about: str) -> None:
    said = {"eventTime": "2026-03-29T12:00:00Z", "producer": "p", "schemaURL": f"{SCHEMA}{about}", "dataset": output()}

    assert read(said) == LineageEvent(what=about)


@pytest.mark.parametrize(
    ("schema", "what"),
    [
        pytest.param(f"{SCHEMA}{'D' * 41}", "D" * 40, id="the beginning of its last part"),
        pytest.param(SCHEMA, "openlineage", id="without a last part"),
        pytest.param("urn:OPENLINEAGE", "urn:OPENLINEAGE", id="in capitals"),
    ],
)
def test_an_event_without_a_run_is_named_after_its_schema(schema: str, what: str) -> None:
    assert read({"schemaURL": schema}) == LineageEvent(what=what)


def test_it_may_come_as_a_cloudevent() -> None:
    headers = [("ce_specversion", b"1.0"), ("ce_id", b"7"), ("ce_source", b"spark")]

    _, found = decode(Kind.DATASET_UPDATED, headers, msgspec.json.encode(event(output())))

    assert isinstance(found, LineageEvent)


def test_an_update_of_our_own_may_speak_of_runs() -> None:
    value = b'{"uri": "lake://a", "eventType": "COMPLETE", "run": {}}'

    _, found = decode(Kind.DATASET_UPDATED, [], value)

    assert found == DatasetUpdated(uri="lake://a")


URIS = [
    ("s3://lake", "flights/2013", "s3://lake/flights/2013"),
    ("s3://lake/", "/flights", "s3://lake/flights"),
    ("s3://X", "X", "s3://X/X"),
    ("file", "/data/flights", "file:///data/flights"),
    ("file://", "/data/flights", "file:///data/flights"),
    ("hdfs://namenode:8020", "/data/flights", "hdfs://namenode:8020/data/flights"),
    ("postgres://db:5432", "shop.public.orders", "postgres://db:5432/shop.public.orders"),
    ("bigquery", "project.set.table", "bigquery://project.set.table"),
    ("lake", "flights", "lake://flights"),
    ("arn:aws:glue:eu-1:12", "table/db/t", "arn:aws:glue:eu-1:12/table/db/t"),
    ("file", "/my data/größe", "file:///my%20data/gr%C3%B6%C3%9Fe"),
    ("file", "/day=2013%2F01", "file:///day=2013%2F01"),
]


@pytest.mark.parametrize(("namespace", "name", "uri"), URIS)
def test_namespace_and_name_make_one_uri(namespace: str, name: str, uri: str) -> None:
    assert uri_of(namespace, name) == uri


def test_the_uri_of_a_dataset_may_have_2048_characters() -> None:
    name = "n" * (2048 - len("s3://lake/"))

    assert [len(update.uri) for update in updates(output(name))] == [2048]


REFUSED = [
    (event(output(), eventType="DONE"), "Invalid enum value 'DONE' - at `$.eventType`"),
    (event(output(), eventTime="yesterday"), "Invalid RFC3339 encoded datetime - at `$.eventTime`"),
    (event(output(), eventTime="2026-03-29T12:00:00"), "Expected `datetime` with a timezone component - at `$.eventTime`"),
    (
        event(output(), eventTime="9999-12-31T23:59:59-14:00"),
        f"the time 9999-12-31T23:59:59-14:00 {OUT_OF_RANGE} - at `$.eventTime`",
    ),
    (event(output(), run={}), "Object missing required field `runId` - at `$.run`"),
    (event(output(), job={"namespace": "etl"}), "Object missing required field `name` - at `$.job`"),
    (event(output(), {"name": "x"}), "Object missing required field `namespace` - at `$.outputs[1]`"),
    (event(*[output()] * 1001), "Expected `array` of length <= 1000 - at `$.outputs`"),
    (event(output(name="")), "Expected `str` of length >= 1 - at `$.outputs[0].name`"),
    (
        event(output(facets=versioned("v" * 600))),
        "Expected `str` of length <= 512 - at `$.outputs[0].facets.version.datasetVersion`",
    ),
    (
        event(output(outputFacets={"outputStatistics": {"rowCount": -1}})),
        "Expected `int` >= 0 - at `$.outputs[0].outputFacets.outputStatistics.rowCount`",
    ),
    (
        event(output(), output("n" * 2039)),
        "the URI of a dataset has at most 2048 characters, this one 2049 - at `$.outputs[1]`",
    ),
]


@pytest.mark.parametrize(("said", "why"), REFUSED, ids=range(len(REFUSED)))
def test_an_invalid_run_event_is_refused_with_the_field(said: dict[str, Any], why: str) -> None:
    with pytest.raises(RejectedError) as caught:
        read(said)

    assert (caught.value.reason, str(caught.value)) == (Rejection.INVALID, f"not a valid OpenLineage run event: {why}")


@pytest.mark.parametrize("value", [b"{}", b'{"eventType": 7, "run": {}}', b'{"eventType": "COMPLETE"}', b'{"schemaURL": "x"}'])
def test_what_is_no_lineage_is_refused_as_a_dataset_update(value: bytes) -> None:
    with pytest.raises(RejectedError, match="not a valid dataset-updated event: Object missing required field `uri`"):
        decode(Kind.DATASET_UPDATED, [], value)


def test_other_topics_carry_no_lineage() -> None:
    with pytest.raises(RejectedError, match="not a valid task-finished event"):
        decode(Kind.TASK_FINISHED, [], msgspec.json.encode(event(output())))
