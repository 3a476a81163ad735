"""A second evaluation of conditions, which shares no code with the product: it reads their JSON, as a person would.

Filters and expiry are not read: the DAGs of simulations and storms that are judged by it have none that decides.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any

import msgspec


def is_met(condition: object, uris: Collection[str]) -> bool:
    """Whether the condition of a DAG is met when there are events of these datasets. A DAG without one is never met."""
    return condition is not None and _is_met(msgspec.to_builtins(condition), uris)


def names_all(condition: object, uris: Collection[str]) -> bool:
    """Whether the condition names each of these datasets, by its URI or by a pattern."""
    leaves = list(_leaves(msgspec.to_builtins(condition)))
    return all(any(_is_met(leaf, [uri]) for leaf in leaves) for uri in uris)


def _is_met(shape: Mapping[str, Any], uris: Collection[str]) -> bool:
    if shape["op"] == "dataset":
        return shape["uri"] in uris
    if shape["op"] == "pattern":
        return any(re.fullmatch(_expression(shape["pattern"]), uri) for uri in uris)
    met = sum(_is_met(operand, uris) for operand in shape["of"])
    wanted: dict[str, int] = {"all_of": len(shape["of"]), "any_of": 1, "n_of": shape.get("k", 0)}
    return met >= wanted[shape["op"]]


def _leaves(shape: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [leaf for operand in shape["of"] for leaf in _leaves(operand)] if "of" in shape else [shape]


def _expression(pattern: str) -> str:
    return re.escape(pattern).replace(r"\*\*", ".*").replace(r"\*", "[^/]*")
