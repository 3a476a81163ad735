"""Compatibility of JSON Schemas within a major version, as a list of breaking changes."""

from collections.abc import Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]

ABOUT = {"$schema", "$id", "$defs", "title", "description", "examples", "default", "properties", "required", "$ref"}
LOWER, UPPER = {"minimum", "exclusiveMinimum", "minLength", "minItems"}, {"maximum", "exclusiveMaximum", "maxLength", "maxItems"}


def breaks(old: Schema, new: Schema, *, incoming: bool) -> list[str]:
    """`incoming`: records by the old schema must be understood. Otherwise programs with the old schema must understand ours."""
    return list(_breaks("$", (old, old), (new, new), incoming=incoming))


def _breaks(path: str, old: tuple[Schema, Schema], new: tuple[Schema, Schema], *, incoming: bool) -> Iterator[str]:
    """Each as the whole document and the part of it."""
    was, now = _resolved(*old), _resolved(*new)
    yield from _rules(path, was, now, incoming=incoming)
    properties = now.get("properties", {})
    for name, shape in was.get("properties", {}).items():
        if name not in properties:
            yield f"{path}.{name} is gone"
        else:
            yield from _breaks(f"{path}.{name}", (old[0], shape), (new[0], properties[name]), incoming=incoming)
    needed, before = set(now.get("required", ())), set(was.get("required", ()))
    for name in sorted(needed - before if incoming else before - needed):
        yield f"{path}.{name} is {'needed now' if incoming else 'not always there any more'}"


def _resolved(document: Schema, schema: Schema) -> Schema:
    reference = schema.get("$ref", "")
    return document["$defs"][reference.rpartition("/")[2]] if reference else schema


def _rules(path: str, was: Schema, now: Schema, *, incoming: bool) -> Iterator[str]:
    for rule in sorted((was.keys() | now.keys()) - ABOUT):
        if was.get(rule) != now.get(rule) and not _allowed(rule, was.get(rule), now.get(rule), incoming=incoming):
            yield f"{path}: {rule} was {was.get(rule)} and is {now.get(rule)}"


def _allowed(rule: str, was: Any, now: Any, *, incoming: bool) -> bool:
    """Readers may take more than before, writers may write less."""
    wider, narrower = (now, was) if incoming else (was, now)
    if rule == "enum" and was and now:
        return set(wider) >= set(narrower)
    if rule in LOWER | UPPER:
        return wider is None or (narrower is not None and (wider <= narrower if rule in LOWER else wider >= narrower))
    return False
