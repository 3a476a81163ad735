"""Putting something else in the place of a function or constant of the product, from outside."""

from typing import Any


def replace(owner: Any, name: str, new: Any) -> Any:
    """Returns what was there. Raises AttributeError where there was nothing: what is replaced must be in use."""
    before = getattr(owner, name)
    setattr(owner, name, new)
    return before


def without(owner: Any, name: str, *texts: str) -> None:
    """Take parts out of a statement. Raises ValueError where one of them is not in it."""
    statement: str = getattr(owner, name)
    for text in texts:
        if text not in statement:
            raise ValueError(f"{name} has no {text!r}")
        statement = statement.replace(text, "")
    setattr(owner, name, statement)
