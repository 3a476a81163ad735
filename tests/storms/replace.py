"""Putting something else in the place of a function or constant of the product, from outside."""

import sys
from collections.abc import Callable
from inspect import signature
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest


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


def without(module: Any, name: str, *texts: str) -> None:
    """Take parts out of a statement. Raises KeyError without that statement, ValueError where a part is not in it."""
    statement: str = module._SQL[name]
    for text in texts:
        if text not in statement:
            raise ValueError(f"{name} has no {text!r}")
        statement = statement.replace(text, "")
    put(module._SQL, name, statement)


def restate(module: Any, name: str, statement: str) -> None:
    """Put another statement in the place of one. Raises ValueError where it is the same, KeyError where there is none."""
    if module._SQL[name] == statement:
        raise ValueError(f"{name} stays as it is")
    put(module._SQL, name, statement)


def put(owner: Any, name: str, new: Any) -> None:
    """Set an attribute, or a statement of a query module, for as long as the process lives."""
    if isinstance(owner, dict):
        owner[name] = new
    else:
        setattr(owner, name, new)


def seed_for_now(fault: Callable[[], None], monkeypatch: "pytest.MonkeyPatch") -> list[str]:
    """Seed a fault for as long as a test takes. Returns the names of what is replaced."""
    seeded: list[str] = []

    def put_for_now(owner: Any, name: str, new: Any) -> None:
        seeded.append(name)
        if isinstance(owner, dict):
            monkeypatch.setitem(owner, name, new)
        else:
            monkeypatch.setattr(owner, name, new)

    monkeypatch.setattr(sys.modules[__name__], "put", put_for_now)
    fault()
    return seeded
