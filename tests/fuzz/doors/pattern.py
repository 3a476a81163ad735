"""A pattern of dataset URIs: matched or not, or refused as a pattern."""

from pathlib import Path

from hypothesis import strategies as st

from tests.fuzz.doors.door import Door
from tidegate.schemas.conditions.pattern import matches, pattern_problem


def enter(given: tuple[str, str], _: Path) -> None:
    pattern, uri = given
    if pattern_problem(pattern) is None:
        assert matches(pattern, uri) in (True, False)


DOOR = Door(st.tuples(st.text("*?[]/ab:.", max_size=15), st.text("/ab:.", max_size=30)), enter, share=150)
