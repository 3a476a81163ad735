"""JSON Schema: whether a schema is valid, refers to parts of itself only, and what a value violates.

No schema refers to another document, so nothing is fetched. A pattern may take for ever: a daemon never evaluates a schema, and
does not import this module.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError
from referencing import Registry, Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012, SchemaResource

from tidegate.schemas.error import did_you_mean
from tidegate.schemas.params import Params, ParamSpec

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

CHEAP_FORMATS = ("date", "email", "ipv4", "ipv6", "uuid")
CHEAP_CHARACTERS = 10_000


def conf_problem(params: Params, conf: Mapping[str, Any]) -> str | None:
    """Why a run cannot have this conf, in one sentence; None for a valid one."""
    if problem := _unknown_key(params, conf):
        return problem
    for name, spec in params.specs.items():
        if name not in conf:
            return f"param {name!r} has no default and must be given"
        if problem := value_problem(spec, conf[name]):
            return f"param {name!r}: {problem}"
    return None


def _unknown_key(params: Params, conf: Mapping[str, Any]) -> str | None:
    unknown = () if params.takes_any else sorted(map(str, conf.keys() - params.specs.keys()))
    if not unknown:
        return None
    near = did_you_mean(unknown[0], params.specs)
    others = f"; params are {', '.join(params.specs):.500}, and only a DAG with extra_params=True takes other keys"
    return f"there is no param {unknown[0]!r:.200}{near or others}"


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
    validator = Draft202012Validator(spec.schema, registry=CLOSED, format_checker=Draft202012Validator.FORMAT_CHECKER)
    try:
        error: ValidationError | None = next(iter(sorted(validator.iter_errors(value), key=str)), None)
    except RecursionError:
        return "its schema refers to itself without an end"
    except (Unresolvable, ArithmeticError) as error:
        return f"its schema cannot be evaluated: {type(error).__name__}: {error}"
    return None if error is None else f"{error.message:.300}"


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
