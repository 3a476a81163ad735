"""The parameters of a DAG, and the conf of a run."""

from collections.abc import Mapping
from typing import Any

import msgspec


class ParamSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A parameter: its JSON Schema, and its default. If `default` is unset, each run must be given a value."""

    default: Any | msgspec.UnsetType = msgspec.UNSET
    schema: dict[str, Any] = {}


class Params(msgspec.Struct, frozen=True):
    """What the conf of a run may say: the parameters by name, and with `extra` other keys. Without parameters any key may be."""

    specs: Mapping[str, ParamSpec] = {}
    extra: bool = False

    @property
    def takes_any(self) -> bool:
        """Whether a conf may have keys that are no parameters."""
        return self.extra or not self.specs


ANY_PARAMS = Params()


def conf_with_defaults(params: Params, conf: Mapping[str, Any]) -> dict[str, Any]:
    """`conf`, and the defaults of the parameters that it leaves out."""
    defaults = {name: spec.default for name, spec in params.specs.items() if spec.default is not msgspec.UNSET}
    return {**defaults, **conf}
