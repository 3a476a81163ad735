"""The protocols hold in every order of their steps; and each of their protections is needed."""

import os

import pytest

from tests.specification.checker import NAMES, check, protections

LONG = bool(os.environ.get("TEST_LONG"))
ALL = [(name, without) for name in NAMES for without in protections(name)]


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES if LONG else ["Ingest"])
def test_every_order_of_steps_keeps_the_rules(name: str) -> None:
    checked = check(name)

    assert (checked.code, checked.broken) == (0, []), checked.text
    assert checked.states > 500


@pytest.mark.long
@pytest.mark.parametrize(("name", "without"), ALL if LONG else ALL[:1])
def test_each_protection_is_needed(name: str, without: str) -> None:
    checked = check(name, without)

    assert checked.broken, checked.text
