"""The OpenAPI 3.1 document, made from the tables of endpoints and the types that they name."""

from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Any

import msgspec

from tidegate.daemon.api.examples import Examples
from tidegate.daemon.gateway.endpoint import LONGEST_KEY, Act, Endpoint, Nothing, Read, Stream
from tidegate.daemon.gateway.problem import Problem
from tidegate.daemon.permissions import Right

PREFIX = "/api/v1"
STREAM = "text/event-stream"
EVENTS = 'event: dag-run-state\ndata: {"dag_id":"daily_delays","run_id":"manual__1","state":"running"}\n\n'
REF = "#/components/schemas/{name}"

PROBLEMS = {
    "400": "A parameter or the body has the wrong shape",
    "401": "No valid token",
    "404": "The subject does not exist",
    "409": "The request is refused: the detail says why",
    "429": "Too many requests: `Retry-After` says when the next may come",
    "500": "A fault of the server, which its log names",
    "503": "A server that the request needs is away or too slow: `Retry-After` says when to repeat it",
}
"""By status, the problems of every endpoint."""

FORBIDDEN = {"403": "The caller lacks the right for this"}
"""That of changes, and of reads that not every caller may do."""

ACT_PROBLEMS = {
    "408": "The body came too slowly",
    "412": "The subject is not what If-Match or If-None-Match names",
    "413": "The body is too large",
    "422": "Values do not fit the params of the DAG, which `errors` name each; or another request had this Idempotency-Key",
}
"""Those of changes."""

KEY = f"A repeat of the request with the same key, of at most {LONGEST_KEY} characters and for a day, returns the first result."
AFTER = "The `id` that the client received last: the stream continues with the changes after it."
TAG = "The ETag of what the caller saw: the change is refused if it was changed since."
ANY = "*"
ABSENT = "The caller saw none: the change is refused if there is one."


NOUNS = ("runs",)
"""Parts of paths that are a noun also without an id after them."""

LOCATED = {"headers": {"Location": {"description": "The address of what was made", "schema": {"type": "string"}}}}


AnyEndpoint = Endpoint | Stream[Any]


def document(endpoints: Sequence[AnyEndpoint]) -> Mapping[str, Any]:
    """The document of all endpoints."""
    types = [Problem, *(type_ for endpoint in endpoints for type_ in _types(endpoint))]
    references, components = msgspec.json.schema_components(types, ref_template=REF)
    # Equal types are one: `list[X]` of two endpoints is a type of its own at each.
    schemas = dict(zip(map(str, types), references, strict=True))
    components = {name: {**for_generators(schema), "title": title_of(name)} for name, schema in components.items()}
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        operation = _operation(endpoint, schemas, components)
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = with_examples(operation, Examples(components))
    return {
        "openapi": "3.1.0",
        "info": {"title": "Tidegate", "version": version("tidegate")},
        "servers": [{"url": PREFIX}],
        "security": [{"token": []}],
        "tags": [{"name": tag} for tag in sorted(set(map(_tag, endpoints)))],
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }


def with_examples(operation: dict[str, Any], examples: Examples) -> dict[str, Any]:
    """The operation with an example of its request, and of its answer."""
    answers = [answer for status, answer in operation["responses"].items() if status.startswith("2")]
    for described in (*answers, *([operation["requestBody"]] if "requestBody" in operation else ())):
        for media_type, content in described["content"].items():
            content["example"] = EVENTS if media_type == STREAM else examples.of(content["schema"])
    return operation


def for_generators(schema: Any) -> Any:
    """The schema without `"items": false` beside `prefixItems`, which generators of clients cannot read; `maxItems` says it."""
    match schema:
        case {"prefixItems": [first, *others], "items": False, **rest}:
            alike = all(other == first for other in others)
            return {**rest, **({"items": for_generators(first)} if alike else {"prefixItems": for_generators([first, *others])})}
        case dict():
            return {name: for_generators(value) for name, value in schema.items()}
        case list():
            return [for_generators(value) for value in schema]
        case _:
            return schema


def title_of(name: str) -> str:
    """The name of a class in a client: of two types with one name also the module, as in `LeasesRetention`."""
    *_, module, own = ["", *name.split(".")]
    return module.title().replace("_", "") + own


def _tag(endpoint: AnyEndpoint) -> str:
    """The last noun of its path: the first part of one, or a part before an id, such as `tasks`."""
    parts = endpoint.path.split("/")[1:]
    nouns = [part for part, after in zip(parts, [*parts[1:], ""], strict=True) if after.startswith("{") or part in NOUNS]
    return [parts[0], *nouns][-1]


def _types(endpoint: AnyEndpoint) -> Iterator[Any]:
    yield endpoint.params
    yield endpoint.result
    if isinstance(endpoint, Act):
        yield endpoint.body


def _operation(endpoint: AnyEndpoint, schemas: Mapping[str, Any], components: Mapping[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": endpoint.work.__name__,
        "tags": [_tag(endpoint)],
        "summary": (endpoint.work.__doc__ or "").partition("\n")[0],
        "description": f"Needs the right `{endpoint.right}`.",
        "parameters": [*_parameters(endpoint, schemas, components), *_headers(endpoint)],
        "responses": _responses(endpoint, schemas),
    }
    if isinstance(endpoint, Act):
        is_required = any(field.required for field in msgspec.structs.fields(endpoint.body))
        if endpoint.body is not Nothing:
            operation["requestBody"] = {**_content("The change", schemas[str(endpoint.body)]), "required": is_required}
    return operation


def _responses(endpoint: AnyEndpoint, schemas: Mapping[str, Any]) -> dict[str, Any]:
    content = {"application/problem+json": {"schema": schemas[str(Problem)]}}
    responses = {status: {"description": text, "content": content} for status, text in sorted(_problems(endpoint).items())}
    result = _content("The result", schemas[str(endpoint.result)])
    if isinstance(endpoint, Act):
        return {str(endpoint.status): {**result, **(LOCATED if endpoint.location else {})}, **responses}
    if isinstance(endpoint, Stream):
        return {"200": _content("The events, without end", schemas[str(endpoint.result)], STREAM), **responses}
    tag = {"ETag": {"description": "The version of the result", "schema": {"type": "string"}}}
    unchanged = {"304": {"description": "The caller has the result: `If-None-Match` names its ETag"}}
    is_versioned = isinstance(endpoint, Read) and endpoint.version is not None
    return {"200": {**result, "headers": tag}, **({} if is_versioned else unchanged), **responses}


def _problems(endpoint: AnyEndpoint) -> Mapping[str, str]:
    if isinstance(endpoint, Act):
        return PROBLEMS | FORBIDDEN | ACT_PROBLEMS
    return PROBLEMS if endpoint.right is Right.VIEW else PROBLEMS | FORBIDDEN


def _content(description: str, schema: Any, media_type: str = "application/json") -> dict[str, Any]:
    return {"description": description, "content": {media_type: {"schema": schema}}}


def _headers(endpoint: AnyEndpoint) -> Iterator[dict[str, Any]]:
    if isinstance(endpoint, Act):
        yield _header("Idempotency-Key", KEY, {"type": "string", "minLength": 1, "maxLength": LONGEST_KEY})
    if isinstance(endpoint, Act) and endpoint.versioned:
        yield _header("If-Match", TAG, {"type": "string"})
    if isinstance(endpoint, Act) and endpoint.creates:
        yield _header("If-None-Match", ABSENT, {"type": "string", "enum": [ANY]})
    if isinstance(endpoint, Stream):
        yield _header("Last-Event-ID", AFTER, {"type": "string"})


def _header(name: str, description: str, schema: Any) -> dict[str, Any]:
    return {"name": name, "in": "header", "required": False, "description": description, "schema": schema}


def _parameters(endpoint: AnyEndpoint, schemas: Mapping[str, Any], components: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    properties = components[schemas[str(endpoint.params)]["$ref"].rpartition("/")[2]]["properties"]
    for field in msgspec.structs.fields(endpoint.params):
        in_path = f"{{{field.encode_name}}}" in endpoint.path
        schema = dict(properties[field.encode_name])
        yield {
            "name": field.encode_name,
            "in": "path" if in_path else "query",
            "required": in_path or field.required,
            "description": schema.pop("description", ""),
            "schema": schema,
        }
