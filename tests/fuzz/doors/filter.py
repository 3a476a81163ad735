"""A filter of an event: passed or not, or an error with the place."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from tests.fuzz.doors.door import Door, check
from tests.fuzz.values import VALUES
from tidegate.schemas.conditions.filter import passes
from tidegate.schemas.error import FilterError


def enter(given: tuple[str, Mapping[str, Any]], _: Path) -> None:
    where, extra = given
    try:
        assert passes(where, extra) in (True, False)
    except FilterError as error:
        check("at character" in str(error))


FILTERS = st.lists(
    st.sampled_from(
        ["a", "b.c", "x[0]", "==", "!=", "<", ">=", "in", "not", "and", "or", "(", ")", "[", "]", "1", "'t'", "null", "`", "-"]
    ),
    max_size=10,
).map(" ".join)

INPUTS = st.tuples(FILTERS | st.text(max_size=30), st.dictionaries(st.sampled_from("abx"), VALUES, max_size=3))
DOOR = Door(INPUTS, enter, share=150)
