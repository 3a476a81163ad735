"""Putting something else in the place of a function or constant of the product, from outside."""

from inspect import signature
from typing import Any


def replace(owner: Any, name: str, new: Any) -> Any:
    """Returns what was there.

    Raises AttributeError where there was nothing, TypeError where a function takes another number of arguments: a fault that
    only breaks the call shows nothing.
    """
    before = getattr(owner, name)
    if callable(before) and len(signature(before).parameters) != len(signature(new).parameters):
        raise TypeError(f"{name} takes {signature(before)}, not {signature(new)}")
    put(owner, name, new)
    return before


def without(owner: Any, name: str, *texts: str) -> None:
    """Take parts out of a statement. Raises ValueError where one of them is not in it."""
    statement: str = getattr(owner, name)
    for text in texts:
        if text not in statement:
            raise ValueError(f"{name} has no {text!r}")
        statement = statement.replace(text, "")
    put(owner, name, statement)


def put(owner: Any, name: str, new: Any) -> None:
    """It stays there for as long as the process lives."""
    setattr(owner, name, new)
