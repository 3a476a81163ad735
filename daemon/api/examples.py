"""Examples of requests and answers in the OpenAPI document, made from its schemas and from one value for each field."""

from collections.abc import Mapping
from typing import Any

VALUES: Mapping[str, Any] = {
    "dag_id": "daily_delays",
    "run_id": "scheduled__2013-01-31T00:00:00+00:00",
    "task_id": "aggregate",
    "name": "default_pool",
    "pool": "default_pool",
    "uri": "lake://flights",
    "username": "anna",
    "user": "anna",
    "owner": "anna",
    "conf": {"day": "2013-01-31"},
    "dag_params": {"day": "2013-01-31"},
    "start_date": "2013-01-01T00:00:00Z",
    "end_date": "2013-01-31T00:00:00Z",
    "logical_date": "2013-01-31T00:00:00Z",
    "host": "spark-1.example",
    "path": "daily_delays.py",
    "relative_fileloc": "daily_delays.py",
    "partition": "tidegate.dataset-updated/0",
    "topic": "tidegate.dataset-updated",
    "because": "the topic was restored",
    "content": "the vendor delivers at noon",
    "detail": "there is no DAG 'none'; `GET /dags` shows all",
    "tags": ["flights"],
    "at": "latest",
    "event_id": "flights-2013-01-31",
    "source": "loader",
    "extra": {"rows": 842},
    "description": "flights by hour",
    "to": ["oncall@airline.example"],
    "upstream": [],
    "memory": "2g",
    "instance": "/api/v1/dags/none",
    "timezone": "Europe/Zurich",
}
"""By the name of a field, where its type takes the value; other fields have the first value that their type allows."""

BODIES: Mapping[str, Any] = {
    "Clear": {"run_id": VALUES["run_id"], "task_ids": [VALUES["task_id"]], "dry_run": True},
    "Mark": {"state": "success"},
    "NewBackfill": {
        **{name: VALUES[name] for name in ("dag_id", "start_date", "end_date", "dag_params")},
        "reprocess": "failed",
        "max_active_runs": 2,
    },
    "BackfillPatch": {"limits": {"max_active_runs": 3}},
    "NewRun": {"conf": VALUES["conf"], "logical_date": VALUES["logical_date"]},
}
"""Bodies of which fields exclude each other, or whose optional fields are the subject."""

FORMATS: Mapping[str, Any] = {
    "date-time": "2026-01-31T06:00:00Z",
    "date": "2026-01-31",
    "uuid": "0f9bfbd4-6a57-4a1a-9d52-8ad2c2a7e0f3",
    "duration": "PT1H",
}

REF = "#/components/schemas/"


class Examples:
    """Examples of the schemas of a document."""

    def __init__(self, components: Mapping[str, Any]) -> None:
        self._components = components

    def of(self, schema: Any, name: str = "", above: tuple[str, ...] = ()) -> Any:
        """A value that the schema allows: with all fields of an answer, but none below itself."""
        if schema.get("default"):
            return schema["default"]
        if "$ref" in schema:
            return self._of_component(schema["$ref"].removeprefix(REF), above)
        if "anyOf" in schema:
            return self._of_one(schema["anyOf"], name, above)
        if "enum" in schema:
            return schema["enum"][0]
        if "const" in schema:
            return schema["const"]
        return self._of_type(schema, name, above)

    def _of_component(self, name: str, above: tuple[str, ...]) -> Any:
        if name.rpartition(".")[2] in BODIES:
            return BODIES[name.rpartition(".")[2]]
        return self.of(self._components[name], "", (*above, name))

    def _of_one(self, schemas: list[Any], name: str, above: tuple[str, ...]) -> Any:
        """Of the first type but null, unless it is one above."""
        is_above = [schema.get("$ref", "").removeprefix(REF) in above for schema in schemas]
        usable = [schema for schema, known in zip(schemas, is_above, strict=True) if not known and schema.get("type") != "null"]
        return self.of(usable[0], name, above) if usable else None

    def _of_type(self, schema: Any, name: str, above: tuple[str, ...]) -> Any:
        known = VALUES.get(name)
        match schema.get("type"):
            case "object" if "properties" in schema:
                return {field: self.of(part, field, above) for field, part in schema["properties"].items()}
            case "object":
                return known if isinstance(known, dict) else {}
            case "array":
                return known if isinstance(known, list) else self._of_array(schema, name, above)
            case "string":
                return known if isinstance(known, str) else FORMATS.get(schema.get("format", "")) or _text(schema)
            case "integer" | "number":
                return max(schema.get("minimum", 1), 1)
            case "boolean":
                return False
            case _:
                return known

    def _of_array(self, schema: Any, name: str, above: tuple[str, ...]) -> list[Any]:
        first = [self.of(part, name, above) for part in schema.get("prefixItems", ())]
        items = schema.get("items", {})
        if first or not items or items.get("$ref", "").removeprefix(REF) in above:
            return first
        return [self.of(items, name, above)] * max(schema.get("minItems", 1), 1)


def _text(schema: Any) -> str:
    return str(schema.get("default") or "text")
