"""What templates say about addresses and states, and what they load."""

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from importlib.resources import files
from typing import Any

import pytest

from tidegate.daemon.web.pages.dag import DagParams
from tidegate.daemon.web.rendering import (
    COLOURS,
    MARKS,
    WAITING,
    colour,
    environment,
    gate_colour,
    in_time,
    letter_colour,
    query,
    static,
    url,
)
from tidegate.schemas.explain.gates import GateState
from tidegate.schemas.queries.dead_letters import DeadLetterState
from tidegate.schemas.state import BackfillState, DateState, RunState, SubmissionState, TaskState

NOON = datetime(2026, 11, 24, 12, tzinfo=UTC)


def sources() -> dict[str, str]:
    """The templates by name."""
    folder = files("tidegate.daemon.web").joinpath("templates")
    return {name: folder.joinpath(name).read_text() for name in environment().list_templates()}


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


def test_the_states_that_wait_are_these() -> None:
    states = {state.value for kind in (RunState, TaskState, SubmissionState, BackfillState, DateState) for state in kind}

    assert {state for state in states if colour(state) == WAITING} == {
        *("none", "scheduled", "queued", "up_for_retry", "retry", "planned", "intent", "submitting", "cancelling"),
    }


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([gate_colour(state) for state in GateState], ["ok", "wait", "skip"]),
        ([letter_colour(state) for state in DeadLetterState], ["bad", "ok", "skip"]),
        ([colour("open"), colour(None), colour("unknown")], ["run", "wait", "wait"]),
    ],
)
def test_a_state_has_the_colour_of_its_kind(found: list[str], expected: list[str]) -> None:
    assert found == expected


def test_chips_have_a_colour_or_a_state() -> None:
    """A state in a template is one; another word has a colour, which has a mark."""
    chips = [found for text in sources().values() for found in re.findall(r"(\w*)chip\(\"(\w+)\"", text)]

    assert {colour for kind, colour in chips if not kind} <= MARKS.keys()
    assert {state for kind, state in chips if kind} <= COLOURS.keys()


@pytest.mark.parametrize(
    ("kind", "states"),
    [
        ("c", ("success", "running", "failed", "upstream_failed", "scheduled", "skipped")),
        ("f", ("success", "running", "failed", "queued", "skipped")),
    ],
)
def test_each_colour_has_a_form_of_its_own(kind: str, states: Sequence[str]) -> None:
    """No text in a cell or a drawing tells its state. The forms are the rules of the style without colours."""
    forms = {form_of(f".{kind}-{colour(state)}") for state in states}

    assert (len(forms), "" in forms) == (len(states), False)


def form_of(name: str) -> str:
    """The rules for a class by itself."""
    style = files("tidegate.daemon.web").joinpath("static/style.css").read_text()
    colourless = re.sub(r"--(ok|run|bad|wait)-", "--", re.sub(r"/\*.*?\*/", "", style))
    rules = re.findall(r"(?:^|(?<=} ))(\S[^{}]*) { (.*?) }", colourless, re.MULTILINE)
    return " ".join(rule for names, rule in rules if re.search(rf"(^|, ){re.escape(name)}(::before)?(,|$)", names))


@pytest.mark.parametrize(("left", "says"), [(-1, ""), (0, ""), (1, ' <span class="why">and 1 more</span>')])
def test_a_list_that_is_cut_says_so(left: int, says: str) -> None:
    template = environment().from_string('{% from "parts.html" import and_more with context %}{{ and_more(left) }}')

    assert template.render(left=left) == says


def test_the_address_of_a_file_changes_with_its_content() -> None:
    assert re.fullmatch(r"/static/style\.css\?v=[0-9a-f]{12}", static("style.css"))


def test_a_time_is_said_relative_to_now() -> None:
    assert in_time(NOON + timedelta(minutes=5), NOON) == "in 5m00s"
    assert in_time(NOON - timedelta(seconds=12), NOON) == "12s ago"


def test_templates_have_no_script_and_no_style_of_their_own() -> None:
    """The policy of the server forbids both."""
    texts = sources()

    assert texts
    assert [name for name, text in texts.items() if re.search(r"<style|\sstyle=|\son[a-z]+=\"|<script(?! src)", text)] == []
    assert [name for name, text in texts.items() if "| safe" in text or "autoescape false" in text] == []


def test_templates_count_one_thing_as_one() -> None:
    """`counted` and the functions beside it write a number with its noun and its verb."""
    plural = re.compile(r"}} (events|records|characters|are|further)\b|== 1 else")

    assert [name for name, text in sources().items() if plural.search(text)] == []


def test_templates_write_no_query_again() -> None:
    """`query` has all parameters of the page, so that no link forgets one."""
    assert [
        name for name, text in sources().items() if re.search(r"(\w+)=params\.\1\b.*cursor=|cursor=.*\b(\w+)=params\.\2\b", text)
    ] == []


def test_the_script_stays_small() -> None:
    assert len(files("tidegate.daemon.web").joinpath("static/page.js").read_text().splitlines()) <= 300
