"""Postgres matches the URIs that a pattern matches."""

import random
from itertools import product

from tests.integration.queries.blocks import Connection
from tidegate.schemas.conditions.pattern import matches, pattern_problem, posix_expression

SPECIAL = ["s3://b/t/*", "s://a.b/*", "s://a+b(c)[d]{2}|e^f$/**", "**\\d**", "s://*?x=1&y=%20", "**:**"]
URIS = [
    "s3://b/t/x",
    "s3://b/t/x/y",
    "s://a.b/c",
    "s://axb/c",
    "s://a+b(c)[d]{2}|e^f$/g/h",
    "s://\\d",
    "s://5",
    "s://q?x=1&y=%20",
    "s:",
]


async def test_the_expression_of_a_pattern_matches_the_same_uris(connection: Connection) -> None:
    draw = random.Random(1).choice
    drawn = ["".join(draw(["a", "b", "/", "*", "**", "ab", "a/"]) for _ in range(number % 9 + 1)) for number in range(400)]
    patterns = [pattern for pattern in (*SPECIAL, *drawn) if pattern_problem(pattern) is None]
    uris = URIS + ["".join(draw("ab/") for _ in range(number % 12)) for number in range(60)]
    pairs = list(product(patterns, uris))

    rows = await connection.fetch(
        "SELECT uri ~ expression FROM unnest($1::text[], $2::text[]) AS pair (expression, uri)",
        [posix_expression(pattern) for pattern, _ in pairs],
        [uri for _, uri in pairs],
    )

    assert [pair for pair, row in zip(pairs, rows, strict=True) if row[0] is not matches(*pair)] == []
