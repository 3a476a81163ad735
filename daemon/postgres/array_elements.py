"""A fast test in asyncpg of whether an element of an array argument is itself an array.

asyncpg asks this about each element, by the abstract classes `Iterable` and `Sized`. The question takes longer than the encoding
of a number, and a batch has about a hundred elements per run. A test by concrete types gives the same answers in a fraction; it
takes longer with each type, so `Db` passes other collections as lists.
"""

from collections.abc import Mapping

from asyncpg.protocol import protocol

CONTAINERS = (list, tuple)
"""The types of array arguments. A dict is none: as an element it is a JSON object."""

REPLACED: Mapping[str, type | tuple[type, ...]] = {"IterableABC": CONTAINERS, "SizedABC": CONTAINERS, "MappingABC": dict}
"""By variable of asyncpg that holds an abstract class, what takes its place."""


def use_concrete_types() -> None:
    """Compare with these types, in all connections of this process."""
    for name, types in REPLACED.items():
        setattr(protocol, name, types)
