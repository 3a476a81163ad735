"""When a runner has lost contact with the daemons, by a clock that tests set."""

import pytest

from tidegate.daemon.spark import contact
from tidegate.daemon.spark.contact import Contact

Steps = list[tuple[float, str, int]]


@pytest.mark.parametrize(
    ("steps", "at", "lost_s"),
    [
        pytest.param([], 74.9, None, id="not yet"),
        pytest.param([], 75.0, 75.0, id="nothing was ever recorded"),
        pytest.param([(10, "add", 1), (70, "confirm", 1)], 84.9, None, id="it counts from when the heartbeat was sent"),
        pytest.param([(10, "add", 1), (70, "confirm", 1)], 85.0, 75.0, id="and not from when it was recorded"),
        pytest.param([(10, "add", 1), (20, "add", 2), (70, "confirm", 1)], 85.0, 75.0, id="a later one is not recorded"),
        pytest.param(
            [(10, "add", 1), (20, "add", 2), (70, "confirm", 2), (71, "confirm", 1)], 94.9, None, id="the newest counts"
        ),
        pytest.param([(10, "add", 1), (70, "confirm", 5)], 75.0, 75.0, id="another file time is none of its heartbeats"),
    ],
)
def test_contact_is_lost(monkeypatch: pytest.MonkeyPatch, steps: Steps, at: float, lost_s: float | None) -> None:
    now = 0.0
    monkeypatch.setattr(contact, "elapsed", lambda: now)
    runner = Contact(100.0)
    for now, step, beat in steps:  # noqa: B007 - the clock
        getattr(runner, step)(beat)
    now = at

    assert runner.lost_s() == lost_s


def test_without_a_limit_contact_is_never_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = Contact(None)
    monkeypatch.setattr(contact, "elapsed", lambda: 1e9)

    assert runner.lost_s() is None
