"""A file with the pools of an installation, such as one in a repository: TOML, with the table `pools`."""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from tidegate.schemas.dag import DEFAULT_POOL
from tidegate.schemas.error import RequestError, did_you_mean
from tidegate.schemas.queries.pools import MOST_SLOTS, NAME_RULE, UNLIMITED, PoolRow, is_name

TABLE = "pools"

TOO_LARGE = "one of its numbers is too long, or its arrays are nested too deep"
"""Python neither reads nor prints such values."""


class PoolChange(msgspec.Struct, frozen=True):
    """The slots of a pool before, None for a new one, and after, None for one that is deleted."""

    name: str
    slots_before: int | None
    slots: int | None


def read_pools(path: Path) -> Mapping[str, int]:
    """The slots by pool. Raises RequestError, which names the file and what is wrong in it."""
    try:
        with path.open("rb") as file:
            content = tomllib.load(file)
        problem = next(_problems(content), None)
    except OSError as error:
        raise RequestError(f"{path} cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise RequestError(f"{path} is no TOML: {error}") from error
    except (ValueError, RecursionError) as error:
        raise RequestError(f"{path}: {TOO_LARGE}") from error
    if problem is not None:
        raise RequestError(f"{path}: {problem}")
    pools: Mapping[str, int] = content[TABLE]
    return pools


def _problems(content: Mapping[str, object]) -> Iterator[str]:
    for name in content:
        if name != TABLE:
            yield f"there is no table {name!r}{did_you_mean(name, [TABLE]) or f'; pools are in the table [{TABLE}]'}"
    pools = content.get(TABLE)
    if not isinstance(pools, dict):
        yield f"it has no table [{TABLE}], with a line such as reports = 4 for each pool"
        return
    for name, slots in pools.items():
        if not is_name(name):
            yield f"pool {name!r:.100}: {NAME_RULE}"
        if type(slots) is not int or not UNLIMITED <= slots <= MOST_SLOTS:
            yield f"pool {name!r:.100}: slots are a number from 0 to {MOST_SLOTS}, or -1 for no limit, not {slots!r:.100}"


def changes(known: Mapping[str, PoolRow], wanted: Mapping[str, int], *, prune: bool) -> list[PoolChange]:
    """What makes the installation have the wanted pools, by name; with `prune` no others but the default pool."""
    slots = {name: pool.slots for name, pool in known.items()}
    found = [PoolChange(name, slots.get(name), wanted[name]) for name in wanted if slots.get(name) != wanted[name]]
    if prune:
        found += [PoolChange(name, slots[name], None) for name in slots if name not in wanted and name != DEFAULT_POOL]
    return sorted(found, key=lambda change: change.name)
