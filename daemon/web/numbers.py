"""Numbers of pages, with the nouns and verbs that follow them."""

from msgspec import Struct

UNKNOWN = "\N{EN DASH}"


class Stat(Struct, frozen=True):
    """A number in large letters, and the words below it, which lead to `address` where there is one."""

    number: str
    words: str
    is_bad: bool = False
    address: str = ""


def together(number: int, one: str, many: str) -> str:
    """What follows the name of the first of several: `waits`, or `and 2 more wait`."""
    return one if number == 1 else f"and {number - 1:,} more {many}"


def at_least(number: int, one: str, many: str, *, is_exact: bool) -> str:
    """`1 run`, `2,000+ runs` if there may be more."""
    return f"{number:,} {one if number == 1 else many}" if is_exact else f"{number:,}+ {many}"


def percent(part: float) -> str:
    """`45%` of 0.45."""
    return f"{100 * part:.0f}%"
