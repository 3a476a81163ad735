"""What templates say about addresses and states, and what they load."""

import re
from datetime import UTC, date, datetime, timedelta
from importlib.resources import files
from typing import Any

import pytest

from tidegate.daemon.web.pages.dag import DagParams
from tidegate.daemon.web.rendering import environment, in_time, query, sign, static, url
from tidegate.schemas.state import RunState, TaskState

NOON = datetime(2026, 11, 24, 12, tzinfo=UTC)


def test_the_parts_of_an_address_are_escaped() -> None:
    assert url("dags", "a/b?c", "runs", "x+y:1", q='"><', none=None) == "/dags/a%2Fb%3Fc/runs/x%2By%3A1?q=%22%3E%3C"


@pytest.mark.parametrize(
    ("given", "changes", "expected"),
    [
        ({}, {}, "/dags"),
        ({"at": date(2020, 1, 1), "rows": 7}, {"tasks": 7}, "/dags?at=2020-01-01&tasks=7&rows=7"),
        ({"at": date(2020, 1, 1), "rows": 7}, {"at": None, "before": "c"}, "/dags?before=c&rows=7"),
        ({"rows": 7}, {"rows": 100}, "/dags"),
    ],
)
def test_a_link_keeps_what_it_does_not_change(given: dict[str, Any], changes: dict[str, Any], expected: str) -> None:
    assert url("dags", **query(DagParams(dag_id="d", **given), **changes)) == expected


@pytest.mark.parametrize("state", [*RunState, *TaskState, "held", None])
def test_every_state_has_a_colour_and_a_sign(state: str | None) -> None:
    colour, mark = sign(state)
    style = files("tidegate.daemon.web").joinpath("static/style.css").read_text()

    assert mark
    assert f".c-{colour}" in style
    assert f".f-{colour}" in style


def test_the_address_of_a_file_changes_with_its_content() -> None:
    assert re.fullmatch(r"/static/style\.css\?v=[0-9a-f]{12}", static("style.css"))


def test_a_time_is_said_relative_to_now() -> None:
    assert in_time(NOON + timedelta(minutes=5), NOON) == "in 5m00s"
    assert in_time(NOON - timedelta(seconds=12), NOON) == "12s ago"


def test_templates_have_no_script_and_no_style_of_their_own() -> None:
    """The policy of the server forbids both."""
    names = environment().list_templates()
    sources = {name: files("tidegate.daemon.web").joinpath("templates", name).read_text() for name in names}

    assert names
    assert [name for name, text in sources.items() if re.search(r"<style|\sstyle=|\son[a-z]+=\"|<script(?! src)", text)] == []
    assert [name for name, text in sources.items() if "| safe" in text or "autoescape false" in text] == []


def test_the_script_stays_small() -> None:
    assert len(files("tidegate.daemon.web").joinpath("static/page.js").read_text().splitlines()) <= 300
