"""The tasks of a run in topological order, which is not that of their indices."""

from itertools import product

from tidegate.schemas.graph import element_index, is_removed, position_of
from tidegate.schemas.queries.run_pages import LAST_INDEX, indices_after

PLAIN = [0, 1, 2, 7, 100]
ELEMENTS = [element_index(position, element) for position, element in product((0, 2, 7), (0, 1, 9_999))]
REMOVED = [-LAST_INDEX, -3, -1]


def place(index: int) -> tuple[bool, int, int]:
    return is_removed(index), 0 if is_removed(index) else position_of(index), index


def test_the_tasks_after_one_are_those_after_an_index_of_each_kind() -> None:
    order = sorted([*PLAIN, *ELEMENTS, *REMOVED], key=place)

    for number, index in enumerate(order, 1):
        lasts = zip((PLAIN, ELEMENTS, REMOVED), indices_after(index), strict=True)
        after = [{each for each in kind if each > last} for kind, last in lasts]
        assert set().union(*after) == set(order[number:]), index


def test_without_one_all_follow() -> None:
    plain, elements, removed = indices_after(None)

    assert (plain, elements) == (-1, element_index(0, 0) - 1)
    assert removed == -LAST_INDEX - 1


def test_an_index_that_no_run_has_makes_none_that_the_column_cannot_have() -> None:
    assert all(abs(index) <= LAST_INDEX + 1 for last in (LAST_INDEX, 1_048_575, -LAST_INDEX - 1) for index in indices_after(last))
