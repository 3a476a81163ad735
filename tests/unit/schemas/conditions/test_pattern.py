"""Patterns of URIs: what a * matches."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.schemas.conditions.pattern import literal_prefix, matches, pattern_problem, posix_expression


@pytest.mark.parametrize(
    ("pattern", "uri", "answer"),
    [
        ("s3://b/t/*", "s3://b/t/day=1", True),
        ("s3://b/t/*", "s3://b/t/", True),
        ("s3://b/t/*", "s3://b/t", False),
        ("s3://b/t/*", "s3://b/t/day=1/part", False),
        ("s3://b/t/**", "s3://b/t/day=1/part", True),
        ("s3://b/*/day=*", "s3://b/t/day=1", True),
        ("s3://b/*/day=*", "s3://b/t/u/day=1", False),
        ("s3://b/**/day=*", "s3://b/t/u/day=1", True),
        ("s3://b/**/day=*", "s3://b/t/u/day=1/x", False),
        ("*", "plain", True),
        ("*", "s3://b", False),
        ("**", "s3://b", True),
        ("s3://b/t.?*", "s3://b/tx?", False),
        ("s3://b/t.?*", "s3://b/t.?1", True),
        ("s3://b/[ab]*", "s3://b/a", False),
        ("s3://b/*-*", "s3://b/a-b-c", True),
        ("s3://ab*b", "s3://ab", False),
        ("S3://b/*", "s3://b/a", False),
    ],
)
def test_a_star_stands_for_anything_up_to_a_slash_and_two_for_anything(pattern: str, uri: str, answer: bool) -> None:
    assert matches(pattern, uri) is answer


PIECES = st.lists(st.sampled_from(["a", "b", "/", "*", "**"]), max_size=8)


@settings(max_examples=500, deadline=None)
@given(pattern=PIECES, uri=st.text("ab/", max_size=10))
def test_a_pattern_matches_what_its_expression_does(pattern: list[str], uri: str) -> None:
    text = "".join(pattern)
    if pattern_problem(text):
        return
    expression = re.sub(r"\*\*|\*", lambda star: ".*" if star[0] == "**" else "[^/]*", text)

    assert matches(text, uri) is bool(re.fullmatch(expression, uri))
    assert not matches(text, uri) or uri.startswith(literal_prefix(text))


def test_postgres_gets_an_expression_of_the_whole_uri() -> None:
    assert posix_expression("s3://b.c/*/day=**") == r"^s3://b\.c/[^/]*/day=.*$"


def test_a_pattern_that_is_made_to_be_slow_is_not() -> None:
    assert not matches("**a*a**a*a**a*ab", "a" * 2048)


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("s3://b", "a pattern has a * in it; a single dataset is Dataset(…)"),
        ("s3://***", "write * for anything up to the next /, or ** for anything at all"),
        ("*/" * 9, "a pattern has 8 stars at most"),
        ("*/" * 8, None),
        ("s3://b/*", None),
    ],
)
def test_invalid_patterns_are_explained(pattern: str, said: str | None) -> None:
    assert pattern_problem(pattern) == said
