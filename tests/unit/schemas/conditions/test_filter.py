"""Filters on the extra of events: evaluation and syntax errors."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.schemas.conditions.filter import passes, undecided
from tidegate.schemas.conditions.filter_syntax import MAX_LENGTH, MAX_NESTING, Comparison, Field, Fixed, comparisons, parse
from tidegate.schemas.error import FilterError

EXTRA: dict[str, Any] = {
    "rows": 5,
    "share": 0.5,
    "country": "CH",
    "final": True,
    "draft": False,
    "nothing": None,
    "tags": ["a", 2, None, True],
    "source": {"kind": "batch", "row-count": 7, "parts": [{"n": 1}]},
    "it's": 1,
    "XL": 4,
    "lines": "a\nb",
    "many": 2**53 + 1,
}


@pytest.mark.parametrize(
    ("where", "answer"),
    [
        ("rows == 5", True),
        ("rows == 5.0", True),
        ("rows != 5", False),
        ("rows > 4 and rows >= 5 and rows < 6 and rows <= 5", True),
        ("rows > 5 or rows < 5", False),
        ("-1 < rows", True),
        ("5e0 == rows", True),
        ("5E0 == rows", True),
        ("share == 0.5", True),
        ("many == 9007199254740993", True),
        ("share < 1", True),
        ("country == 'CH'", True),
        ('country == "CH"', True),
        ("country < 'D'", True),
        ("country in ['CH', 'DE']", True),
        ("country not in ['CH', 'DE']", False),
        ("country in []", False),
        ("country not in []", True),
        ("'a' in tags", True),
        ("2 in tags", True),
        ("'b' in tags", False),
        ("'b' not in tags", True),
        ("null in tags", True),
        ("null in source.parts", False),
        ("final", True),
        ("draft", False),
        ("not draft", True),
        ("not not final", True),
        ("final == true and draft == false", True),
        ("nothing == null", True),
        ("nothing != null", False),
        ("rows != null", True),
        ("source.kind == 'batch'", True),
        ("source.`row-count` == 7", True),
        ("`it's` == 1", True),
        ("XL == 4 and `XL` == 4", True),
        ("source.parts[0].n == 1", True),
        ("tags[1] == 2", True),
        ("rows == source.parts[0].n", False),
        ("rows > source.parts[0].n", True),
        ("(rows == 5 or rows == 6) and country == 'CH'", True),
        ("rows == 5 or rows == 6 and country == 'DE'", True),
        (r"country == 'C\H'", True),
        ("lines == 'a\\\nb'", True),
        (r"country != 'it\'s'", True),
    ],
)
def test_a_filter_passes_matching_events(where: str, answer: bool) -> None:
    assert passes(where, EXTRA) is answer


@pytest.mark.parametrize(
    "comparison",
    [
        *("missing == 1", "missing != 1", "missing == null", "missing", "missing in [1]", "1 in missing", "rows.inner == 1"),
        *("missing in []", "tags[4] == 1", "tags[9] == 1", "country[0] == 'C'", "source[0] == 1", "tags.name == 1"),
        *("rows == '5'", "rows != '5'", "rows > 'a'", "rows == true", "country > 1", "final > false and 1 > 0", "final == 1"),
        *("rows", "country", "nothing", "rows in ['5']", "rows in country", "'C' in country", "tags == 1", "source > 1"),
    ],
)  # fmt: skip
def test_a_field_that_is_missing_or_of_another_type_makes_neither_a_comparison_nor_its_opposite_pass(comparison: str) -> None:
    if "1 > 0" in comparison:
        comparison = "final > 1"

    assert not passes(comparison, EXTRA)
    assert not passes(f"not ({comparison})", EXTRA)


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ("rows == 6", ""),
        ("missing == 1 or rows == 5", ""),
        ("missing == 1 and rows == 6", ""),
        ("missing == null", "its extra has no `missing`"),
        ("not (rows == 5 and source.missing[1].n > 1)", "its extra has no `source.missing[1].n`"),
        ("country == CH", "its extra has no `CH`"),
        ("rows > '5'", '`rows` is a number and "5" a text'),
        ("country or rows == '5'", "`country` is a text and true a truth value"),
        ("tags == source", "`tags` is a list and `source` an object"),
        ("nothing > 1", "`nothing` is null and 1 a number"),
        ("rows in country", "`country` is a text, not a list"),
        ("rows in ['5', '6']", '`rows` is a number, and nothing in ["5","6"] is'),
        (f"{'x' * 80} == 1", f"its extra has no `{'x' * 80}`"),
        (f"{'x' * 100} == 1", f"its extra has no `{'x' * 80}…`"),
    ],
)
def test_a_filter_that_cannot_decide_says_why(where: str, reason: str) -> None:
    assert undecided(where, EXTRA) == reason


def test_one_side_is_enough_where_the_other_is_unknown() -> None:
    assert passes("missing == 1 or rows == 5", EXTRA)
    assert passes("not (missing == 1 and rows == 6)", EXTRA)
    assert not passes("missing == 1 and rows == 5", EXTRA)


@pytest.mark.parametrize(
    ("where", "character", "expected", "found"),
    [
        ("", 1, "a field or a value", "the end"),
        ("rows >", 7, "a field or a value", "the end"),
        ("rows > > 1", 8, "a field or a value", "'>'"),
        ("rows = 1", 6, "'and', 'or' or the end", "'='; write =="),
        ("rows => 1", 6, "'and', 'or' or the end", "'='; write >="),
        ("rows =< 1", 6, "'and', 'or' or the end", "'='; write <="),
        ("rows > 1 && a", 10, "'and', 'or' or the end", "'&'; write and"),
        ("rows > 1 || a", 10, "'and', 'or' or the end", "'|'; write or"),
        ("rows > 1 OR a", 10, "'and', 'or' or the end", "'OR'; write or"),
        ("!rows", 1, "a field or a value", "'!'; write not"),
        ("rows in ('a', 'b')", 9, "a field or a value", "'('; write a list as ['a', 'b']"),
        ("rows == 1 and country in ('a')", 26, "a field or a value", "'('; write a list as ['a', 'b']"),
        ("rows == 1 ORDER", 11, "'and', 'or' or the end", "'ORDER'"),
        ("rows == 1 country == 2", 11, "'and', 'or' or the end", "'country'"),
        ("1 < rows < 3", 10, "'and', 'or' or the end", "'<'"),
        ("(rows == 1", 11, "')'", "the end"),
        ("1", 2, "one of == != <= < >= > in", "the end"),
        ("1 == 2", 6, "a field on one side", "'2'"),
        ("rows > true", 8, "a number or a text beside >", "'true'"),
        ("rows >= null", 9, "a number or a text beside >=", "'null'"),
        ("country in 'CH'", 12, "a list like ['CH', 'DE'] or a field", "\"'CH'\""),
        ("country in ['CH' 'DE']", 18, "','", "\"'DE'\""),
        ("country in [name]", 13, "a number, a text, true, false or null", "'name'"),
        ("country not 'CH'", 13, "'in'", "\"'CH'\""),
        ("country == 'CH", 12, "a field or a value", '"\'"'),
        ("source.and == 1", 8, "the name of a field", "'and'"),
        ("source.1 == 1", 8, "the name of a field", "'1'"),
        ("tags[-1] == 1", 6, "a place in a list, counted from 0", "'-1'"),
        ("tags['a'] == 1", 6, "a place in a list, counted from 0", "\"'a'\""),
        ("tags[0 == 1", 8, "']'", "'=='"),
        ("len(tags) > 1", 4, "'and', 'or' or the end", "'('"),
        ("__import__('os')", 11, "'and', 'or' or the end", "'('"),
        ("rows; drop", 5, "'and', 'or' or the end", "';'"),
        ("lambda: 1", 7, "'and', 'or' or the end", "':'"),
    ],
)
def test_a_text_that_is_no_filter_is_refused_with_the_place_and_what_was_expected(
    where: str, character: int, expected: str, found: str
) -> None:
    with pytest.raises(FilterError) as caught:
        passes(where, EXTRA)

    assert caught.value.character == character
    assert str(caught.value) == f"at character {character} of {where!r}: expected {expected}, found {found}"


def test_the_comparisons_of_a_filter_are_found_from_left_to_right() -> None:
    found = comparisons(parse("not (a == 1 and b > 2) or c"))

    assert [(each.operator, each.left, each.right) for each in found] == [
        ("==", Field(("a",)), Fixed(1)),
        (">", Field(("b",)), Fixed(2)),
        ("==", Field(("c",)), Fixed(value=True)),
    ]


def test_a_filter_of_one_comparison_is_that_comparison() -> None:
    assert parse("(a > 1)") == Comparison(">", Field(("a",)), Fixed(1))


@pytest.mark.parametrize(
    ("where", "character", "expected"),
    [
        ("a" * (MAX_LENGTH + 1), 2000, "the end: a filter has 2000 characters at most, found more"),
        ("(" * (MAX_NESTING + 1), 33, "no more than 32 levels of 'not' and brackets, found '('"),
        ("(" * MAX_NESTING + "rows", 33, "no more than 32 levels of 'not' and brackets, found 'rows'"),
        ("not " * MAX_NESTING + "rows", 129, "no more than 32 levels of 'not' and brackets, found 'rows'"),
        ("rows and " + "(" * MAX_NESTING + "rows", 42, "no more than 32 levels of 'not' and brackets, found 'rows'"),
    ],
    ids=["too long", "too many brackets", "brackets", "not", "brackets after a comparison"],
)
def test_filters_are_neither_long_nor_deep_without_end(where: str, character: int, expected: str) -> None:
    with pytest.raises(FilterError) as caught:
        passes(where, EXTRA)

    assert (
        str(caught.value)
        == f"at character {character} of {where[:40] if len(where) > MAX_LENGTH else where!r}: expected {expected}"
    )


@pytest.mark.parametrize(
    "where",
    [
        "rows == 5".ljust(MAX_LENGTH),
        "(" * (MAX_NESTING - 1) + "rows == 5" + ")" * (MAX_NESTING - 1),
        "not " * (MAX_NESTING - 2) + "(rows == 5)",
        "rows == 5 and " + "(" * (MAX_NESTING - 1) + "rows == 5" + ")" * (MAX_NESTING - 1),
        " and ".join(["(rows == 5)"] * 100),
    ],
    ids=["long", "brackets", "not", "brackets after a comparison", "brackets side by side"],
)
def test_a_filter_may_be_as_long_and_as_deep_as_the_limits(where: str) -> None:
    assert passes(where, EXTRA)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["rows", "a", "b"]), inner, max_size=3),
    max_leaves=8,
)
WORDS = st.lists(
    st.sampled_from(
        [
            "rows",
            "a",
            ".b",
            "[0]",
            "[",
            "]",
            "(",
            ")",
            ",",
            "==",
            "!=",
            "<",
            ">=",
            "in",
            "not",
            "and",
            "or",
            "1",
            "'x'",
            "null",
            "`",
        ]
    ),
    max_size=12,
).map(" ".join)


@settings(max_examples=500, deadline=None)
@given(where=WORDS | st.text(max_size=30), extra=st.dictionaries(st.sampled_from(["rows", "a", "b"]), JSON, max_size=3))
def test_whatever_is_written_and_whatever_the_extra_has_nothing_else_is_raised(where: str, extra: dict[str, Any]) -> None:
    answer: bool | FilterError
    try:
        answer = passes(where, extra)
    except FilterError as error:
        answer = error

    assert answer in (True, False) or 1 <= getattr(answer, "character", 0) <= len(where) + 1
