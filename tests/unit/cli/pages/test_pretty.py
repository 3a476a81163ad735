"""Tables on a terminal."""

import pytest

from tidegate.daemon.cli.pages import pretty


@pytest.fixture(autouse=True)
def _narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.delenv("NO_COLOR", raising=False)


def test_a_long_id_wraps(capsys: pytest.CaptureFixture[str]) -> None:
    run_id = "manual__2026-11-21T12:23:20.490905+00:00_649fb86e33eb5750"

    pretty.table(("RUN",), [(run_id,)])

    assert "".join(capsys.readouterr().out.split()) == "RUN" + run_id


def test_markup_is_printed_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    pretty.table(("REASON",), [("[red]no[/] [/bad]",)])

    assert "[red]no[/] [/bad]" in capsys.readouterr().out


def test_only_states_have_colours(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")

    pretty.table(("TASK", "STATE"), [("failed", "failed")])

    assert capsys.readouterr().out.splitlines()[1].count("\x1b[31mfailed") == 1
