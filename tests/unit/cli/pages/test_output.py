"""Output of commands without a terminal: plain, complete, and without control characters."""

import io
import json
import subprocess
import sys
from datetime import UTC, datetime
from uuid import UUID

import msgspec
import pytest

from tidegate.daemon.cli.pages import output
from tidegate.daemon.terminal import printable

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


class Row(msgspec.Struct, frozen=True):
    id: UUID
    at: datetime
    state: str | None


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    lines = list(output.plain(("DAG", "STATE"), [("a", "active"), ("long_name", "paused")]))

    assert lines == ["DAG        STATE", "a          active", "long_name  paused"]


def test_a_long_id_is_never_cut_off_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    long = "x" * 5_000

    output.table(("RUN",), [(long,)], empty="none")

    assert long in capsys.readouterr().out.split()


@pytest.mark.parametrize(
    ("cell", "expected"), [(None, "-"), ("", "-"), (0, "0"), (NOON, "2026-11-21 12:00:00Z"), ("a b", "a b"), ("é✓", "é✓")]
)
def test_a_cell_is_shown(cell: output.Cell, expected: str) -> None:
    assert output.shown(cell) == expected


def test_nothing_that_moves_the_cursor_reaches_a_terminal() -> None:
    assert printable("\x1b[2J a\nb\r\x9b\N{RIGHT-TO-LEFT OVERRIDE}") == "\\x1b[2J a\\nb\\r\\x9b\\u202e"


def test_an_empty_table_is_reported_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    output.table(("RUN",), [], empty="there are no runs")

    assert capsys.readouterr() == ("", "there are no runs\n")


def test_facts_without_a_value_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    output.facts((("state", "active"), ("description", ""), ("broken", None), ("version", 0)))

    assert capsys.readouterr().out == "  state    active\n  version  0\n"


def test_structs_become_json_objects(capsys: pytest.CaptureFixture[str]) -> None:
    output.write_json([Row(UUID(int=1), NOON, None)])

    assert json.loads(capsys.readouterr().out) == [{"id": str(UUID(int=1)), "at": "2026-11-21T12:00:00Z", "state": None}]


@pytest.mark.parametrize(("value", "expected"), [({}, ""), ([], ""), ({"day": 1}, '{"day":1}')])
def test_json_in_a_cell_is_one_line_or_nothing(value: object, expected: str) -> None:
    assert output.compact(value) == expected


HOSTILE = "\x1b[2J\x9b31m\r\N{RIGHT-TO-LEFT OVERRIDE}"
SHOWN = "\\x1b[2J\\x9b31m\\r\\u202e"


def test_lines_of_an_answer_and_beside_it_show_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    output.write(f"deleted {HOSTILE}\nand more")
    output.say(f"there is no DAG {HOSTILE}")

    assert capsys.readouterr() == (f"deleted {SHOWN}\nand more\n", f"there is no DAG {SHOWN}\n")


def test_json_has_no_character_that_a_terminal_obeys_and_the_same_value(capsys: pytest.CaptureFixture[str]) -> None:
    output.write_json({HOSTILE: HOSTILE})

    out = capsys.readouterr().out
    assert out.replace("\n", "").isprintable()
    assert json.loads(out) == {HOSTILE: HOSTILE}


class Terminal(io.TextIOWrapper):
    """A stdout that says it is a terminal, or not."""

    def __init__(self, *, is_terminal: bool) -> None:
        self.content = io.BytesIO()
        self._is_terminal = is_terminal
        super().__init__(self.content, encoding="utf-8", newline="")

    def isatty(self) -> bool:
        return self._is_terminal


CHUNKS = (b"a\xc3", b"\xa9\r\n\x1b[2J\t\xff", b"\xc2\x9b\n")


@pytest.mark.parametrize(
    ("is_terminal", "shown"), [(True, "a\u00e9\n\\x1b[2J\t\\xff\\x9b\n".encode()), (False, b"".join(CHUNKS))]
)
def test_a_log_is_readable_on_a_terminal_and_unchanged_elsewhere(
    monkeypatch: pytest.MonkeyPatch, *, is_terminal: bool, shown: bytes
) -> None:
    terminal = Terminal(is_terminal=is_terminal)
    monkeypatch.setattr(sys, "stdout", terminal)
    out = output.ByteWriter()

    for chunk in CHUNKS:
        out.write(chunk)

    assert terminal.content.getvalue() == shown


@pytest.mark.parametrize("encoding", ["latin-1", "ascii", "cp1252", "utf-8"])
def test_a_document_is_the_same_in_every_locale(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding=encoding, errors="replace"))
    names = ["é", "東京", "\U0001f600", "\x9b", 'a"b\\']

    output.write_json(names)
    sys.stdout.flush()

    assert json.loads(written.getvalue().decode()) == names


@pytest.mark.parametrize(
    ("script", "ended"),
    [
        ('"$@" version >&-', (0, "")),
        ('"$@" version <&- >&- 2>&-', (0, "")),
        ('"$@" dags nothing 2>&-', (2, "")),
    ],
)
def test_a_command_needs_no_standard_streams(script: str, ended: tuple[int, str]) -> None:
    command = ["sh", "-c", script, "sh", sys.executable, "-m", "tidegate.daemon.cli"]

    found = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (found.returncode, found.stderr) == ended
