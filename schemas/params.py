"""The conf of a run, checked against the parameters of its DAG."""

from collections.abc import Mapping
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from msgspec import UNSET

from tidegate.schemas.dag import ParamSpec


def conf_with_defaults(params: Mapping[str, ParamSpec], conf: Mapping[str, Any]) -> dict[str, Any]:
    """`conf`, and the defaults of the parameters that it leaves out."""
    defaults = {name: spec.default for name, spec in params.items() if spec.default is not UNSET}
    return {**defaults, **conf}


def conf_problem(params: Mapping[str, ParamSpec], conf: Mapping[str, Any]) -> str | None:
    """Why a run cannot have this conf, in one sentence; None for a valid one. Keys that are not parameters are allowed."""
    for name, spec in params.items():
        if name not in conf:
            return f"param {name!r} has no default and must be given"
        if problem := value_problem(spec, conf[name]):
            return f"param {name!r}: {problem}"
    return None


def value_problem(spec: ParamSpec, value: Any) -> str | None:
    """How a value violates the JSON Schema of a parameter, None if it fits: the first problem, in the order of their texts."""
    validator = Draft202012Validator(spec.schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
    error: ValidationError | None = next(iter(sorted(validator.iter_errors(value), key=str)), None)
    return None if error is None else f"{error.message:.300}"
