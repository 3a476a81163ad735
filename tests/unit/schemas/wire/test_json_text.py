"""The nesting depth of JSON, against a plain implementation."""

import json
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.schemas.wire.json_text import depth

MEBIBYTE = 1 << 20


def plain(value: Any) -> int:
    match value:
        case list():
            return 1 + max(map(plain, value), default=0)
        case dict():
            return 1 + max(map(plain, value.values()), default=0)
        case _:
            return 0


BRACKETS = st.text(alphabet='[]{}"\\ua', max_size=6)
NESTED = st.recursive(
    BRACKETS | st.integers(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(BRACKETS, inner, max_size=3),
    max_leaves=40,
)


@given(NESTED)
def test_depth_is_that_of_the_value(value: Any) -> None:
    text = json.dumps(value).encode()

    assert depth(text) == plain(value)


@pytest.mark.parametrize(
    ("text", "levels"),
    [
        (b"", 0),
        (b"7", 0),
        (b'"[[["', 0),
        (b'["\\"[[["]', 1),
        (b'["\\\\",[[]]]', 3),
        (b'{"[":{"]":[1]}}', 3),
        (b"[[][[]][]]", 3),
        (b"[" * 30 + b"]" * 10 + b"[" * 30 + b"]" * 50, 50),
        (b"[[[", 3),
        (b'["never closed [[[', 1),
    ],
)
def test_brackets_in_strings_do_not_count(text: bytes, levels: int) -> None:
    assert depth(text) == levels


@pytest.mark.parametrize("levels", [1, 5, 12, 30, 63, 64, 65, 500])
def test_many_peaks_side_by_side_have_the_depth_of_one(levels: int) -> None:
    peak = b"[" * levels + b"]" * levels

    assert depth(peak * 1000) == levels


def byte_by_byte(text: bytes) -> int:
    level = deepest = 0
    for byte in text:
        if byte in b"[{":
            level += 1
            deepest = max(deepest, level)
        elif byte in b"]}":
            level -= 1
    return deepest


@pytest.mark.parametrize("text", [b"[" * MEBIBYTE, b"[]" * (MEBIBYTE // 2)])
def test_a_mebibyte_of_brackets_is_not_looped_over(text: bytes) -> None:
    started = process_time()
    answer = depth(text)
    took = process_time() - started

    expected = byte_by_byte(text)
    looped = process_time() - started - took

    assert (answer, took < looped / 3) == (expected, True)
