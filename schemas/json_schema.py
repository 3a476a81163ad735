"""JSON Schema: whether a schema is valid, refers to parts of itself only, and what a value violates.

No schema refers to another document, so nothing is fetched. A pattern may take for ever: a daemon never evaluates a schema, and
does not import this module.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError
from referencing import Registry, Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012, SchemaResource

from tidegate.schemas.dag import ParamSpec
from tidegate.schemas.params import Params

if TYPE_CHECKING:
    from referencing._core import Resolver

REFERENCES = ("$ref", "$dynamicRef")
CLOSED: Registry[Any] = Registry()
"""No documents, and no function that retrieves one."""


def conf_problem(params: Params, conf: Mapping[str, Any]) -> str | None:
    """Why a run cannot have this conf, in one sentence; None for a valid one. Keys that are not parameters are allowed."""
    for name, spec in params.items():
        if name not in conf:
            return f"param {name!r} has no default and must be given"
        if problem := value_problem(spec, conf[name]):
            return f"param {name!r}: {problem}"
    return None


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
    resource = Resource.from_contents(schema, default_specification=DRAFT202012)
    for reference in _unresolved(resource, CLOSED.resolver_with_root(resource)):
        problem = f"its schema refers to {reference!r:.200}, which is no part of it"
        return f"{problem}; write the definition under $defs, and refer to #/$defs/NAME"
    return None


def _unresolved(resource: SchemaResource, resolver: "Resolver[Any]") -> Iterator[str]:
    contents = resource.contents if isinstance(resource.contents, Mapping) else {}
    for reference in (contents[keyword] for keyword in REFERENCES if keyword in contents):
        try:
            resolver.lookup(reference)
        except (Unresolvable, ValueError):
            yield reference
    for part in resource.subresources():
        yield from _unresolved(part, resolver.in_subresource(part))
