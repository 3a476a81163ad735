"""`Dag(params=…)`: the parameters that the conf of a run may set."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET

from tidegate.schemas.error import DagError
from tidegate.schemas.params import ParamSpec, in_stored_order

MISSING: Any = UNSET


class Param:
    """A parameter with a JSON Schema: `Param("2013-01-01", type="string", format="date")`.

    `default` is any JSON value that fits the schema. Without a default each run must be given a value; only a DAG without a
    schedule may have such a parameter. `description` and the keywords of JSON Schema (draft 2020-12) in `schema` are optional.
    `Dag` raises DagError for an invalid schema or a default that does not fit it.
    """

    def __init__(self, default: Any = MISSING, *, description: str = "", **schema: Any) -> None:
        self.default = default
        self.schema = {**schema, **({"description": description} if description else {})}


def param_specs(where: str, params: Mapping[str, Any], *, scheduled: bool) -> dict[str, ParamSpec]:
    """The serialised parameters of a DAG; a plain value becomes a default without a schema. Raises DagError."""
    if not isinstance(params, Mapping) or not all(isinstance(name, str) for name in params):
        raise DagError(f"{where}: params is a dict of names to defaults or to Param(…), not {params!r:.100}")
    specs = {name: _param_spec(f"{where}: param {name!r}", value, scheduled=scheduled) for name, value in params.items()}
    if list(specs) == in_stored_order(specs):
        return specs
    return {name: msgspec.structs.replace(spec, position=place) for place, (name, spec) in enumerate(specs.items())}


def _param_spec(where: str, value: Any, *, scheduled: bool) -> ParamSpec:
    from tidegate.schemas import json_schema  # noqa: PLC0415 - its import takes as long as that of the rest of tidegate

    param = value if isinstance(value, Param) else Param(value)
    try:
        problem = json_schema.schema_problem(param.schema)
        # The order of a set differs in each process, and would make a version at each parse.
        encoded = msgspec.json.encode(ParamSpec(default=param.default, schema=param.schema), order="deterministic")
        spec = msgspec.json.decode(encoded, type=ParamSpec)
    except (TypeError, ValueError) as error:
        raise DagError(f"{where}: only JSON can be a default or a schema: {error}") from error
    if problem:
        raise DagError(f"{where}: its schema is not valid JSON Schema: {problem}")
    if problem := json_schema.reference_problem(spec.schema):
        raise DagError(f"{where}: {problem}")
    if spec.default is UNSET:
        if scheduled:
            raise DagError(f"{where}: it needs a default, because a schedule starts runs without giving values")
    elif problem := json_schema.value_problem(spec, spec.default):
        raise DagError(f"{where}: its default does not fit its schema: {problem}")
    return spec
