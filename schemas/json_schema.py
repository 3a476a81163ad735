"""JSON Schema: whether a schema is valid, refers to parts of itself only, and what a value violates.

No schema refers to another document, so nothing is fetched. A pattern may take for ever: a daemon never evaluates a schema, and
does not import this module.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import msgspec
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError
from referencing import Registry, Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012, SchemaResource

from tidegate.schemas.error import Finding, did_you_mean
from tidegate.schemas.params import Params, ParamSpec, in_order

REFERENCES = ("$ref", "$dynamicRef")
CLOSED: Registry[Any] = Registry()
"""No documents, and no function that retrieves one."""

CHEAP = frozenset(
    (
        *("type", "enum", "const", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength"),
        *("title", "description", "default", "examples", "$comment"),
    )
)
"""The keywords that compare a value or say nothing about it."""

MOST_FINDINGS = 20
"""A conf may have thousands of keys that are no params."""

CORRECT_SCHEMA = "correct the schema in the DAG file"

REMEDIES = {
    "type": "write a value of the type {}",
    "enum": "write one of {}",
    "const": "write {}",
    "minimum": "write {} or more",
    "maximum": "write {} or less",
    "exclusiveMinimum": "write more than {}",
    "exclusiveMaximum": "write less than {}",
    "multipleOf": "write a multiple of {}",
    "minLength": "write at least {} characters",
    "maxLength": "write at most {} characters",
    "pattern": "write a text that matches {}",
    "format": "write a text of the format {}",
    "required": "give all of {}",
}
"""What to do about a violated keyword, with its value."""

CHEAP_FORMATS = ("date", "email", "ipv4", "ipv6", "uuid")
CHEAP_CHARACTERS = 10_000


def conf_findings(params: Params, conf: Mapping[str, Any]) -> list[Finding]:
    """Why a run cannot have this conf: each value that is refused, and each that is absent. Pointers lead into the conf."""
    return list(islice(_conf_findings(params, conf), MOST_FINDINGS))


def _conf_findings(params: Params, conf: Mapping[str, Any]) -> Iterator[Finding]:
    unknown = () if params.takes_any else sorted(map(str, conf.keys() - params.specs.keys()))
    for name in unknown:
        yield Finding(pointer_of(name), f"there is no param {name!r:.200}", _known_params(params, name))
    for name, spec in in_order(params.specs).items():
        if name not in conf:
            yield Finding(pointer_of(name), f"param {name!r} has no default and must be given", _described(spec))
        elif finding := value_finding(spec, conf[name]):
            problem = f"param {name!r}: {finding.problem}"
            yield Finding(pointer_of(name) + finding.pointer, problem, finding.remedy)


def _known_params(params: Params, name: str) -> str:
    near = did_you_mean(name, params.specs).removeprefix("; ")
    return near or f"params are {', '.join(in_order(params.specs)):.500}, and only a DAG with extra_params=True takes other keys"


def _described(spec: ParamSpec) -> str:
    return f"it is: {text:.200}" if isinstance(text := spec.schema.get("description"), str) and text else ""


def pointer_of(*parts: str | int) -> str:
    """The JSON Pointer (RFC 6901) of a part."""
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in parts)


def is_cheap(schema: Mapping[str, Any], value: Any) -> bool:
    """Whether `value_problem` takes no time worth mentioning: no schema, or a single value and neither patterns nor parts."""
    if not schema:
        return True
    if (isinstance(value, str) and len(value) > CHEAP_CHARACTERS) or not isinstance(value, str | int | float | None):
        return False
    return schema.keys() - {"format"} <= CHEAP and schema.get("format", "date") in CHEAP_FORMATS


def schema_problem(schema: Mapping[str, Any]) -> str | None:
    """Why this is no JSON Schema (draft 2020-12), in a few words; None for a valid one."""
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        return str(error.message)
    return None


def value_problem(spec: ParamSpec, value: Any) -> str | None:
    """How a value violates the JSON Schema of a parameter, None if it fits: the first problem, in the order of their texts."""
    finding = value_finding(spec, value)
    return None if finding is None else finding.problem


def value_finding(spec: ParamSpec, value: Any) -> Finding | None:
    """As `value_problem`, with the pointer to the part of the value, and what to write instead."""
    validator = Draft202012Validator(spec.schema, registry=CLOSED, format_checker=Draft202012Validator.FORMAT_CHECKER)
    try:
        error: ValidationError | None = next(iter(sorted(validator.iter_errors(value), key=str)), None)
    except RecursionError:
        return Finding("", "its schema refers to itself without an end", CORRECT_SCHEMA)
    except (Unresolvable, ArithmeticError) as error:
        return Finding("", f"its schema cannot be evaluated: {type(error).__name__}: {error}", CORRECT_SCHEMA)
    return None if error is None else Finding(pointer_of(*error.absolute_path), f"{error.message:.300}", _remedy(error))


def _remedy(error: ValidationError) -> str:
    """What to write instead, where the keyword that is violated tells it."""
    text = REMEDIES.get(str(error.validator), "")
    given = error.validator_value
    said = " or ".join(given) if isinstance(given, list) and error.validator == "type" else compact_json(given)
    return text.format(given if isinstance(given, str) else said) if text else ""


def compact_json(value: Any) -> str:
    """At most 200 characters."""
    return f"{msgspec.json.encode(value).decode():.200}"


def reference_problem(schema: Mapping[str, Any]) -> str | None:
    """The first reference of a schema that leads to no part of it, in one sentence; None if all do."""
    for reference in _unresolved(Resource.from_contents(schema, default_specification=DRAFT202012)):
        problem = f"its schema refers to {reference!r:.200}, which is no part of it"
        return f"{problem}; write the definition under $defs, and refer to #/$defs/NAME"
    return None


def _unresolved(schema: SchemaResource) -> Iterator[str]:
    left = [(schema, CLOSED.resolver_with_root(schema))]
    while left:
        part, resolver = left.pop()
        for reference in _references(part):
            try:
                resolver.lookup(reference)
            except (Unresolvable, ValueError):
                yield reference
        left += [(below, resolver.in_subresource(below)) for below in part.subresources()]


def _references(part: SchemaResource) -> Iterator[str]:
    contents = part.contents if isinstance(part.contents, Mapping) else {}
    yield from (contents[keyword] for keyword in REFERENCES if keyword in contents)
