"""Parameters of a DAG: what the conf of its runs may say, and what holds where it says nothing."""

from collections.abc import Mapping
from typing import Any

import msgspec
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError
from msgspec import UNSET

from tidegate.schemas.dag import ParamSpec
from tidegate.schemas.error import DagError

MISSING: Any = UNSET


class Param:
    """A parameter with a JSON Schema: `Param("2013-01-01", type="string", format="date")`.

    Without a default every run must be given a value, so that only runs by hand are possible.
    """

    def __init__(self, default: Any = MISSING, *, description: str = "", **schema: Any) -> None:
        self.default = default
        self.schema = {**schema, **({"description": description} if description else {})}


def specs(where: str, given: Mapping[str, Any], *, scheduled: bool) -> dict[str, ParamSpec]:
    """The parameters of a DAG; a plain value is a default that takes anything. Raises DagError."""
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise DagError(f"{where}: params is a dict of names to defaults or to Param(…), not {given!r:.100}")
    return {name: _spec(f"{where}: param {name!r}", value, scheduled=scheduled) for name, value in given.items()}


def _spec(where: str, value: Any, *, scheduled: bool) -> ParamSpec:
    param = value if isinstance(value, Param) else Param(value)
    try:
        Draft202012Validator.check_schema(param.schema)
        spec = msgspec.json.decode(msgspec.json.encode(ParamSpec(default=param.default, schema=param.schema)), type=ParamSpec)
    except SchemaError as error:
        raise DagError(f"{where}: its schema is not valid JSON Schema: {error.message}") from error
    except (TypeError, ValueError) as error:
        raise DagError(f"{where}: only JSON can be a default or a schema: {error}") from error
    if spec.default is UNSET:
        if scheduled:
            raise DagError(f"{where}: it needs a default, because nobody gives a value to runs that a schedule starts")
    elif found := _problem(spec, spec.default):
        raise DagError(f"{where}: its default does not fit its schema: {found}")
    return spec


def conf_of(params: Mapping[str, ParamSpec], given: Mapping[str, Any]) -> dict[str, Any]:
    """The conf of a run: what was given, and the defaults of the rest."""
    defaults = {name: spec.default for name, spec in params.items() if spec.default is not UNSET}
    return {**defaults, **given}


def problem(params: Mapping[str, ParamSpec], conf: Mapping[str, Any]) -> str | None:
    """Why a run cannot have this conf, in one sentence; None where it can. Keys that are no parameters are let pass."""
    for name, spec in params.items():
        if name not in conf:
            return f"param {name!r} has no default and must be given"
        if found := _problem(spec, conf[name]):
            return f"param {name!r}: {found}"
    return None


def _problem(spec: ParamSpec, value: Any) -> str | None:
    validator = Draft202012Validator(spec.schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
    error: ValidationError | None = next(iter(sorted(validator.iter_errors(value), key=str)), None)
    return None if error is None else f"{error.message:.300}"
