"""The progress of a long deletion."""

import pytest

from tidegate.daemon.cli.pages import deletion
from tidegate.daemon.cli.pages.deletion import NAMES, Portions
from tidegate.schemas.message import HistoryPart


def test_each_part_has_a_name() -> None:
    assert set(NAMES) == set(HistoryPart)


@pytest.mark.parametrize(
    ("period_s", "said"),
    [(0.0, ["deleting the runs of d: 1 portion deleted", "deleting the runs of d: 2 portions deleted"]), (60.0, [])],
)
def test_a_deletion_that_takes_long_says_how_far_it_is(
    period_s: float, said: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(deletion, "SAY_EVERY_S", period_s)
    portions = Portions("d")

    portions.add(HistoryPart.RUNS)
    portions.add(HistoryPart.RUNS)

    assert capsys.readouterr().err.splitlines() == said
