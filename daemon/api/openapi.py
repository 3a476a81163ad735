"""The OpenAPI 3.1 document, made from the tables of endpoints and the types that they name."""

from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Any

import msgspec

from tidegate.daemon.gateway.endpoint import Act, Endpoint
from tidegate.daemon.gateway.problem import Problem

PREFIX = "/api/v1"
REF = "#/components/schemas/{name}"


def document(endpoints: Sequence[Endpoint]) -> Mapping[str, Any]:
    """The document of all endpoints."""
    types = [Problem, *(type_ for endpoint in endpoints for type_ in _types(endpoint))]
    references, components = msgspec.json.schema_components(types, ref_template=REF)
    schemas = dict(zip(types, references, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(f"{PREFIX}{endpoint.path}", {})[endpoint.method.lower()] = _operation(endpoint, schemas, components)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Tidegate", "version": version("tidegate")},
        "security": [{"token": []}],
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }


def _types(endpoint: Endpoint) -> Iterator[Any]:
    yield endpoint.params
    yield endpoint.result
    if isinstance(endpoint, Act):
        yield endpoint.body


def _operation(endpoint: Endpoint, schemas: Mapping[Any, Any], components: Mapping[str, Any]) -> dict[str, Any]:
    problem = {"description": "A problem", "content": {"application/problem+json": {"schema": schemas[Problem]}}}
    operation: dict[str, Any] = {
        "operationId": endpoint.work.__name__,
        "summary": (endpoint.work.__doc__ or "").partition("\n")[0],
        "description": f"Needs the right `{endpoint.right}`.",
        "parameters": list(_parameters(endpoint, schemas, components)),
        "responses": {"200": _content("The result", schemas[endpoint.result]), "default": problem},
    }
    if isinstance(endpoint, Act):
        operation["requestBody"] = {**_content("The change", schemas[endpoint.body]), "required": True}
    return operation


def _content(description: str, schema: Any) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _parameters(endpoint: Endpoint, schemas: Mapping[Any, Any], components: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    properties = components[schemas[endpoint.params]["$ref"].rpartition("/")[2]]["properties"]
    for field in msgspec.structs.fields(endpoint.params):
        in_path = f"{{{field.encode_name}}}" in endpoint.path
        yield {
            "name": field.encode_name,
            "in": "path" if in_path else "query",
            "required": in_path or field.required,
            "schema": properties[field.encode_name],
        }
