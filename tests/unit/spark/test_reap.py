"""The reaper of a runner that was killed: it records the end of the attempt only after the end of the runner."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.spark.test_spool import DEAD, prepared
from tidegate.daemon.spark.process import Identity
from tidegate.daemon.spark.runner import reap as reap_module
from tidegate.daemon.spark.runner.reap import reap


def lives_for(looks: int) -> Callable[[Identity], bool]:
    """A process that lives for this number of looks."""
    left = iter(range(looks))
    return lambda _: next(left, None) is not None


@pytest.mark.parametrize(
    ("looks", "outcome"),
    [
        (0, "failed"),
        pytest.param(3, "failed", id="the kernel frees the memory of one that was just killed"),
        pytest.param(10**9, None, id="it lives"),
    ],
)
def test_a_runner_is_reaped_after_its_end(
    looks: int, outcome: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reap_module, "KILLED_S", 0.1)
    monkeypatch.setattr(reap_module, "alive", lives_for(looks))
    spool = prepared(tmp_path)
    spool.claim(DEAD)

    reap(spool)

    found = spool.outcome()
    assert (found and found.outcome) == outcome
