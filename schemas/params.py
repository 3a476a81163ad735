"""The parameters of a DAG, and the conf of a run."""

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET

from tidegate.schemas.dag import ParamSpec

Params = Mapping[str, ParamSpec]


def conf_with_defaults(params: Params, conf: Mapping[str, Any]) -> dict[str, Any]:
    """`conf`, and the defaults of the parameters that it leaves out."""
    defaults = {name: spec.default for name, spec in params.items() if spec.default is not UNSET}
    return {**defaults, **conf}
