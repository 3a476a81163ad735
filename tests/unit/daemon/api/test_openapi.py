"""The OpenAPI document follows from the tables of endpoints."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
from jsonschema import Draft202012Validator

from tidegate.daemon.api.openapi import PREFIX, document, for_generators
from tidegate.daemon.api.routes import ENDPOINTS, STREAMS
from tidegate.daemon.gateway.endpoint import Act, Nothing, Read
from tidegate.daemon.permissions import Role
from tidegate.schemas.queries.leases import CLOCK, OUTBOX, PARTITION
from tidegate.schemas.state import INACTIVE, RunState, RunType, SubmissionState, TaskState
from tidegate.schemas.wire.event import Rejection

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


ENUMERATED = {
    ("RunRow", "state"): RunState,
    ("RunRow", "run_type"): RunType,
    ("RunTaskRow", "state"): TaskState,
    ("RunAttemptRow", "state"): SubmissionState,
    ("ClearedRun", "state"): RunState,
    ("DeadLetterRow", "reason"): Rejection,
    ("TokenRow", "role"): Role,
    ("BackfillRow", "dag_state"): ("", *INACTIVE),
    ("LeaseLine", "kind"): (PARTITION, OUTBOX, CLOCK),
}
TEXTS = {("RowHolder", "role"), ("Problem", "type")}
"""A role of Postgres, and an address."""

CLASSED = re.compile("(.*_)?(state|kind|outcome|status|role|run_type|type)")


def test_states_are_listed() -> None:
    schemas = DOCUMENT["components"]["schemas"]

    assert {at: schemas[at[0]]["properties"][at[1]]["enum"] for at in ENUMERATED} == {
        at: list(of) for at, of in ENUMERATED.items()
    }


def test_no_state_kind_or_outcome_is_a_text_of_any_content() -> None:
    fields = {
        (name, field): part
        for name, schema in DOCUMENT["components"]["schemas"].items()
        for field, part in schema.get("properties", {}).items()
        if CLASSED.fullmatch(field)
    }
    plain = [at for at, field in fields.items() for part in parts(field) if part.get("type") == "string" and "enum" not in part]

    assert set(plain) == TEXTS
    assert len(fields) > 50


def examples() -> Iterator[tuple[str, dict[str, Any]]]:
    for path, operation in operations():
        answers = [answer for status, answer in operation["responses"].items() if status.startswith("2")]
        for described in (*answers, *filter(None, [operation.get("requestBody")])):
            yield from ((path, content) for content in described["content"].values())


def test_each_request_and_each_answer_has_an_example_of_its_schema() -> None:
    for path, content in examples():
        schema = {**content["schema"], "components": DOCUMENT["components"]}
        assert [error.message for error in Draft202012Validator(schema).iter_errors(content["example"])] == [], path


def test_the_example_of_a_request_is_one_that_its_endpoint_takes() -> None:
    bodies = [endpoint for endpoint in ENDPOINTS if isinstance(endpoint, Act) and endpoint.body is not Nothing]

    for endpoint in bodies:
        operation = DOCUMENT["paths"][endpoint.path][endpoint.method.lower()]
        example = operation["requestBody"]["content"]["application/json"]["example"]
        assert msgspec.convert(example, endpoint.body) is not None
    assert len(bodies) > 15


def test_operations_are_grouped_by_their_nouns() -> None:
    used = {tag for _, operation in operations() for tag in operation["tags"]}

    assert [tag["name"] for tag in DOCUMENT["tags"]] == sorted(used)
    assert {"dags", "runs", "tasks", "backfills", "pools"} <= used
    by_name = {operation["operationId"]: operation["tags"] for _, operation in operations()}
    nouns = {"trigger_run": "runs", "list_runs": "runs", "task_log": "tasks", "note_run": "runs", "clear_tasks": "dags"}
    assert {name: by_name[name] for name in nouns} == {name: [noun] for name, noun in nouns.items()}
