"""The published contract of the topics: a JSON Schema for each kind of event, and an AsyncAPI document.

Both are generated from the structs that the daemons read and write; their docstrings become descriptions. Within a major version,
which is part of the event type, fields may only be added. `tests/unit/schemas/wire/golden/contract` has every revision.
"""

from collections.abc import Callable, Mapping
from inspect import cleandoc
from typing import Any

import msgspec

from tidegate.schemas.wire.event import DATA, INCOMING, Kind, type_of

DIALECT = "https://json-schema.org/draft/2020-12/schema"
ASYNCAPI = "3.0.0"
KAFKA_BINDING = "0.5.0"

OUTGOING = (Kind.DAG_RUN_STATE, Kind.TASK_STATE, Kind.DEAD_LETTER)

KEYS: Mapping[Kind, str] = {
    Kind.DATASET_UPDATED: "The URI of the dataset. Events with the same key keep their order.",
    Kind.DAG_FILE_CHANGED: "The path of the file.",
    Kind.TASK_FINISHED: "The DAG and the run, `dag_id/run_id`.",
    Kind.DAG_RUN_STATE: "The DAG and the run, `dag_id/run_id`. The topic is compacted by it: the last state of a run stays.",
    Kind.TASK_STATE: "The DAG and the run, `dag_id/run_id`: all events of the tasks of a run are in one partition, in order.",
    Kind.DEAD_LETTER: "The key of the record, unchanged.",
}

ABOUT: Mapping[Kind, str] = {
    Kind.DATASET_UPDATED: "A dataset has new data. Programs and successful tasks publish it. The topic also takes run events of"
    " OpenLineage: each output of a COMPLETE event counts as such an event.",
    Kind.DAG_FILE_CHANGED: "A DAG file is new, changed or gone. The daemon's own watcher publishes these as well.",
    Kind.TASK_FINISHED: "An attempt of a task ended; from the process that ran it.",
    Kind.DAG_RUN_STATE: "The state of a run changed. The topic keeps each event for a week, and the last event of each run.",
    Kind.TASK_STATE: "The state of a task of a run changed.",
    Kind.DEAD_LETTER: "A record that can never be handled.",
}

ABOUT_DEAD_LETTERS = (
    "A record that can never be handled, unchanged. `ce_reason` and `ce_message` say why, `ce_topic`, `ce_partition` and"
    " `ce_offset` where the record was. `ce_letter` is its number in `tidegate deadletters`. `ce_valuebytes` is the size of its"
    " value; if `ce_shortened` is `true`, only the beginning of the value follows. The names of its own headers begin with"
    " `original_`."
)


def json_schema(kind: Kind) -> dict[str, Any]:
    """The schema of the data of a kind of event. Raises KeyError for dead letters, which have any data."""
    schema = _tidied(msgspec.json.schema(DATA[kind]))
    name = schema["$ref"].rpartition("/")[2]
    definitions = {other: shape for other, shape in schema["$defs"].items() if other != name}
    whole = {"$schema": DIALECT, "$id": type_of(kind), **schema["$defs"][name]}
    return {**whole, "$defs": definitions} if definitions else whole


def asyncapi(topic_of: Callable[[Kind], str], version: str) -> dict[str, Any]:
    """The AsyncAPI document. `version` is that of Tidegate; `topic_of` names the topic of each kind."""
    shapes, components = msgspec.json.schema_components(DATA.values(), ref_template="#/components/schemas/{name}")
    payloads = dict(zip(DATA, shapes, strict=True))
    return {
        "asyncapi": ASYNCAPI,
        "info": {
            "title": "Tidegate",
            "version": version,
            "description": "Events that start runs, and the states of runs and tasks: CloudEvents 1.0 on Kafka, in binary mode."
            " What Tidegate receives may also come in structured mode, or as bare data without headers.",
        },
        "defaultContentType": "application/json",
        "channels": {kind: _channel(kind, topic_of(kind)) for kind in Kind},
        # From the view of Tidegate: other programs send what it receives.
        "operations": {
            **{f"send-{kind}": _operation("send", kind) for kind in (*OUTGOING, Kind.DATASET_UPDATED)},
            **{f"receive-{kind}": _operation("receive", kind) for kind in INCOMING},
        },
        "components": {"messages": {kind: _message(kind, payloads.get(kind)) for kind in Kind}, "schemas": _tidied(components)},
    }


def _tidied(schema: Any) -> Any:
    """Remove the indentation of docstrings from descriptions."""
    match schema:
        case dict():
            return {
                name: cleandoc(value) if name == "description" and isinstance(value, str) else _tidied(value)
                for name, value in schema.items()
            }
        case list():
            return [_tidied(item) for item in schema]
        case _:
            return schema


def _channel(kind: Kind, topic: str) -> dict[str, Any]:
    return {
        "address": topic,
        "description": ABOUT[kind],
        "messages": {kind: {"$ref": f"#/components/messages/{kind}"}},
        "bindings": {"kafka": {"topic": topic, "bindingVersion": KAFKA_BINDING}},
    }


def _operation(action: str, kind: Kind) -> dict[str, Any]:
    return {
        "action": action,
        "channel": {"$ref": f"#/channels/{kind}"},
        "messages": [{"$ref": f"#/channels/{kind}/messages/{kind}"}],
    }


def _message(kind: Kind, payload: Mapping[str, Any] | None) -> dict[str, Any]:
    """Headers are required of outgoing events only: producers may omit them."""
    content: dict[str, Any] = {"contentType": "application/json", "payload": payload}
    if payload is None:
        content = {"contentType": "application/octet-stream", "description": ABOUT_DEAD_LETTERS}
    return {
        "name": type_of(kind),
        **content,
        "headers": _headers(kind),
        "bindings": {"kafka": {"key": {"type": "string", "description": KEYS[kind]}, "bindingVersion": KAFKA_BINDING}},
    }


def _headers(kind: Kind) -> dict[str, Any]:
    names = {
        "ce_specversion": {"type": "string", "const": "1.0"},
        "ce_type": {"type": "string", "const": type_of(kind)},
        "ce_source": {"type": "string", "minLength": 1, "maxLength": 512, "description": "The program that published it."},
        "ce_id": {"type": "string", "minLength": 1, "maxLength": 512, "description": "With the source, the event's identity."},
        "ce_time": {"type": "string", "format": "date-time"},
    }
    return {"type": "object", "properties": names, **({"required": list(names)} if kind in OUTGOING else {})}
