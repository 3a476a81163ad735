"""The parameters of a DAG, and the conf of a run."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec


class ParamSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A parameter: its JSON Schema, and its default. If `default` is unset, each run must be given a value.

    `position` is its place among the others in the DAG file, set where that of its name differs.
    """

    default: Any | msgspec.UnsetType = msgspec.UNSET
    schema: dict[str, Any] = {}
    position: int | msgspec.UnsetType = msgspec.UNSET


class Params(msgspec.Struct, frozen=True):
    """What the conf of a run may say: the parameters by name, and with `extra` other keys. Without parameters any key may be."""

    specs: Mapping[str, ParamSpec] = {}
    extra: bool = False

    @property
    def takes_any(self) -> bool:
        """Whether a conf may have keys that are no parameters."""
        return self.extra or not self.specs


ANY_PARAMS = Params()


def in_stored_order(names: Iterable[str]) -> list[str]:
    """As Postgres keeps the keys of an object: the short ones first."""
    return sorted(names, key=lambda name: (len(name.encode()), name.encode()))


def in_order(specs: Mapping[str, ParamSpec]) -> dict[str, ParamSpec]:
    """The parameters in the order of the DAG file."""
    places = {name: place for place, name in enumerate(in_stored_order(specs))}
    return dict(sorted(specs.items(), key=lambda item: _place(item[1], places[item[0]])))


def _place(spec: ParamSpec, stored: int) -> int:
    return stored if isinstance(spec.position, msgspec.UnsetType) else spec.position


def conf_with_defaults(params: Params, conf: Mapping[str, Any]) -> dict[str, Any]:
    """`conf`, and the defaults of the parameters that it leaves out."""
    defaults = {name: spec.default for name, spec in params.specs.items() if spec.default is not msgspec.UNSET}
    return {**defaults, **conf}
