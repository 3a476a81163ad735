"""The navigation of the pages."""

import re
from pathlib import Path

from tidegate.daemon import web
from tidegate.daemon.web.app import SCREENS
from tidegate.daemon.web.screen import Screen

ONE_DATASET = "/dataset"
"""Needs an address in the query."""


def test_every_list_is_in_the_navigation() -> None:
    base = (Path(*web.__path__) / "templates/base.html").read_text()
    paths = {screen.read.path for screen in SCREENS if isinstance(screen, Screen)}

    assert {path for path in paths if re.fullmatch(r"/[\w-]*", path) and f'("{path}", ' not in base} == {ONE_DATASET}
