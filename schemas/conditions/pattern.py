"""Patterns of dataset URIs.

`*` matches any number of characters but `/`, also none; `**` matches any number of characters. Everything else matches itself.
So `s3://bucket/table/*` matches `s3://bucket/table/day=1`, but not `s3://bucket/table/day=1/part-0`; `s3://bucket/table/**` does.
"""

import re
from functools import lru_cache

MAX_STARS = 8

_STARS = re.compile(r"(\*+)")


def literal_prefix(pattern: str) -> str:
    """The beginning that all URIs matched by the pattern share."""
    return pattern.partition("*")[0]


def pattern_problem(pattern: str) -> str | None:
    """Why a text is not a valid pattern; None for a valid one."""
    stars: list[str] = _STARS.findall(pattern)
    if not stars:
        return "a pattern has a * in it; a single dataset is Dataset(…)"
    if any(len(star) > 2 for star in stars):
        return "write * for anything up to the next /, or ** for anything at all"
    return f"a pattern has {MAX_STARS} stars at most" if len(stars) > MAX_STARS else None


def posix_expression(pattern: str) -> str:
    """The regular expression by which Postgres matches the same URIs, without backtracking."""
    parts = {"**": ".*", "*": "[^/]*"}
    return f"^{''.join(parts.get(text) or re.escape(text) for text in _STARS.split(pattern))}$"


@lru_cache(maxsize=10_000)
def matches(pattern: str, uri: str) -> bool:
    """Whether the pattern matches the whole URI. Linear in the URI's length for every pattern."""
    reached = {0}
    for part in filter(None, _STARS.split(pattern)):
        if part == "**":
            reached = set(range(min(reached), len(uri) + 1))
        elif part == "*":
            reached = _up_to_a_slash(uri, reached)
        else:
            reached = {at + len(part) for at in reached if uri.startswith(part, at)}
        if not reached:
            return False
    return len(uri) in reached


def _up_to_a_slash(uri: str, starts: set[int]) -> set[int]:
    reached: set[int] = set()
    for start in sorted(starts):
        if start not in reached:
            slash = uri.find("/", start)
            reached.update(range(start, (len(uri) if slash < 0 else slash) + 1))
    return reached
