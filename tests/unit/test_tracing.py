"""A test that does not count for coverage is not traced, nor are its fixtures."""

import sys

import pytest


def is_traced() -> bool:
    return type(sys.gettrace()).__module__.startswith("coverage")


@pytest.fixture
def traced_before() -> bool:
    return is_traced()


def test_coverage_traces_neither_a_test_that_does_not_count_nor_its_fixtures(*, traced_before: bool) -> None:
    assert (traced_before, is_traced()) == (False, False)
