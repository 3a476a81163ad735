"""The OpenAPI document follows from the tables of endpoints."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec

from tidegate.daemon.api.openapi import PREFIX, document, for_generators
from tidegate.daemon.api.routes import ENDPOINTS, STREAMS
from tidegate.daemon.gateway.endpoint import Act, Read
from tidegate.schemas.state import RunState, RunType, SubmissionState, TaskState

DOCUMENT: Any = msgspec.json.decode(msgspec.json.encode(document((*ENDPOINTS, *STREAMS))))


def operations() -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in DOCUMENT["paths"].items():
        for operation in methods.values():
            yield path, operation


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from ([value["$ref"]] if isinstance(value.get("$ref"), str) else [])
        for inner in value.values():
            yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def test_it_has_every_endpoint() -> None:
    known = {(method, path) for path, methods in DOCUMENT["paths"].items() for method in methods}

    assert known == {(endpoint.method.lower(), endpoint.path) for endpoint in (*ENDPOINTS, *STREAMS)}
    assert DOCUMENT["servers"] == [{"url": PREFIX}]


def test_every_parameter_is_described() -> None:
    parameters = [(path, each) for path, operation in operations() for each in operation["parameters"]]

    assert [(path, each["name"]) for path, each in parameters if not each.get("description")] == []


def test_only_reads_without_a_version_say_that_the_caller_has_the_result() -> None:
    unchanged = {path for path, operation in operations() if "304" in operation["responses"]}
    versioned = {endpoint.path for endpoint in ENDPOINTS if isinstance(endpoint, Read) and endpoint.version}

    assert versioned == {"/pools/{name}", "/backfills/{backfill_id}"}
    assert unchanged == {endpoint.path for endpoint in ENDPOINTS if not isinstance(endpoint, Act)} - versioned


def test_every_reference_is_a_schema() -> None:
    schemas = {f"#/components/schemas/{name}" for name in DOCUMENT["components"]["schemas"]}

    assert set(references(DOCUMENT)) <= schemas


def test_each_operation_has_a_summary_a_name_of_its_own_and_the_parameters_of_its_path() -> None:
    names = [operation["operationId"] for _, operation in operations()]

    assert len(names) == len(set(names))
    for path, operation in operations():
        in_path = {each["name"] for each in operation["parameters"] if each["in"] == "path"}
        assert operation["summary"].endswith("."), path
        assert in_path == set(re.findall(r"\{(\w+)\}", path))
        assert all(each["required"] for each in operation["parameters"] if each["in"] == "path")


def parts(value: Any) -> Iterator[dict[str, Any]]:
    """All objects of the document."""
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    for inner in value if isinstance(value, list) else ():
        yield from parts(inner)


def test_generators_of_clients_can_read_it() -> None:
    """openapi-python-client fails at each of these."""
    schemas = DOCUMENT["components"]["schemas"]
    titles = Counter(schema["title"] for schema in schemas.values())

    assert [part for part in parts(DOCUMENT) if part.get("items") is False or "const" in part] == []
    assert [title for title, times in titles.items() if times > 1] == []
    assert {"BackfillStage", "StagesStage", "DatasetsRetention", "LeasesRetention"} <= titles.keys()
    assert schemas["TaskGraph"]["properties"]["edges"]["items"] == {
        "type": "array",
        "minItems": 2,
        "maxItems": 2,
        "items": {"type": "string"},
    }


def test_a_tuple_of_several_types_keeps_them() -> None:
    mixed = {"type": "array", "minItems": 2, "maxItems": 2, "prefixItems": [{"type": "string"}, {"type": "integer"}]}

    assert for_generators({"anyOf": [{**mixed, "items": False}]}) == {"anyOf": [mixed]}


def test_states_are_listed() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    states = {
        ("RunRow", "state"): RunState,
        ("RunRow", "run_type"): RunType,
        ("RunTaskRow", "state"): TaskState,
        ("RunAttemptRow", "state"): SubmissionState,
        ("ClearedRun", "state"): RunState,
    }

    assert {at: schemas[at[0]]["properties"][at[1]]["enum"] for at in states} == {at: list(of) for at, of in states.items()}


def test_operations_are_grouped_by_their_nouns() -> None:
    used = {tag for _, operation in operations() for tag in operation["tags"]}

    assert [tag["name"] for tag in DOCUMENT["tags"]] == sorted(used)
    assert {"dags", "runs", "backfills", "pools"} <= used
