"""Sentences about wrong settings."""

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Any, get_args


def hint(prefix: str, name: str, known: Collection[str]) -> str:
    """The setting that may be meant."""
    close = get_close_matches(name, known, n=1)
    return f"; did you mean {prefix}{close[0].upper()}?" if close else ""


def sentence(prefix: str, problem: str, values: Mapping[str, str], types: Mapping[str, Any]) -> str:
    """`Expected `float` > 0.0 - at `$.sweep_s`` as a sentence for the user."""
    expected, _, path = problem.removeprefix("Expected ").rpartition(" - at `$.")
    name = path.rstrip("`")
    if problem.startswith("Invalid enum value"):
        expected = " or ".join(get_args(types[name]))
    for type_, words in {"int": "a whole number", "float": "a number", "bool": "true or false"}.items():
        expected = expected.removesuffix(", got `str`").replace(f"`{type_}`", words)
    return f"{prefix}{name.upper()} is {values[name]!r}, but must be {expected}"
