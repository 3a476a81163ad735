"""The page of `check --sandbox`."""

import msgspec

from tidegate.daemon.cli.pages import output
from tidegate.daemon.dagfiles.isolation import State


class Sandbox(msgspec.Struct, frozen=True):
    """What isolates DAG files: `reachable` because of missing means, `exposed` because of settings."""

    means: tuple[State, ...]
    reachable: tuple[str, ...]
    hint: str
    readable: tuple[str, ...]
    exposed: tuple[str, ...]


def print_sandbox(found: Sandbox) -> None:
    """Three tables, and how to permit what is missing."""
    rows = [(state.name, state.missing or "active", state.holds_back) for state in found.means]
    output.table(("MEANS", "STATE", "HOLDS BACK"), rows, empty="")
    output.section("Without what is missing, DAG files reach", (), [], empty=_listed(found.reachable))
    output.section("They read programs and facts of the system, and", (), [], empty=_listed(found.readable))
    if found.exposed:
        output.section("They read secrets", (), [], empty=_listed(found.exposed))
    if found.hint:
        output.write()
        output.write(f"To close it: {found.hint}")


def _listed(lines: tuple[str, ...]) -> str:
    return "\n  ".join(lines) or "nothing"
