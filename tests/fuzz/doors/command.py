"""A command line: an exit status that the documents name. Without servers, commands end before they connect."""

from pathlib import Path

from hypothesis import strategies as st

from tests.fuzz.doors.door import Door
from tidegate.daemon.cli.app import run

WORDS = st.sampled_from(
    [
        *("dags", "runs", "tasks", "pools", "topics", "deadletters", "daemon", "migrate"),
        *("list", "show", "why-not", "trigger", "clear", "set", "release"),
        *("--json", "--limit", "--help", "--conf", "--run-after", "--logical-date"),
        *("{", "-1", "1e999", "ü", "0001-01-01", "\x1b[31m", "x" * 300),
    ]
)


def enter(words: list[str], _: Path) -> None:
    assert run(words) in (0, 1, 2, 3)


DOOR = Door(st.lists(WORDS | st.text(max_size=8), max_size=5), enter, share=10, in_suite=14)
