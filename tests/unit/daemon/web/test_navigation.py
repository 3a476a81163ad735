"""The navigation of the pages."""

import re

import pytest

from tidegate.daemon.web.app import SCREENS
from tidegate.daemon.web.navigation import OF_SYSTEM, PAGES, navigation_of
from tidegate.daemon.web.screen import Screen

ONE_DATASET = "/dataset"
"""Needs an address in the query."""


def test_every_list_is_in_the_navigation() -> None:
    paths = {screen.read.path for screen in SCREENS if isinstance(screen, Screen)}

    assert {path for path in paths if re.fullmatch(r"/[\w-]*", path)} - {*PAGES, *OF_SYSTEM} == {ONE_DATASET}
    assert {*PAGES, *OF_SYSTEM} <= paths


@pytest.mark.parametrize(
    ("path", "current"),
    [
        ("/", ["Now"]),
        ("/dags", ["DAGs"]),
        ("/dags/daily/runs/latest", ["DAGs"]),
        ("/dataset", ["Datasets"]),
        ("/events/3", ["Datasets"]),
        ("/system", ["System", "System"]),
        ("/losses/3/settle", ["System", "System"]),
        ("/dead-letters/3", ["System", "Dead letters"]),
        ("/audit", ["System", "Audit"]),
        ("/nowhere", []),
    ],
)
def test_a_page_belongs_to_a_section(path: str, current: list[str]) -> None:
    found = navigation_of(path, may_operate=True)

    assert [page.name for page in (*found.pages, *found.below) if page.is_current] == current


@pytest.mark.parametrize(("may_operate", "names"), [(True, [*OF_SYSTEM.values()]), (False, [*OF_SYSTEM.values()][:-1])])
def test_the_audit_log_is_for_operators(names: list[str], *, may_operate: bool) -> None:
    assert [page.name for page in navigation_of("/system", may_operate=may_operate).below] == names
