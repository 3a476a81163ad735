"""How long a notification waits for its next try."""

import pytest

from tidegate.daemon.duties.notify import LONGEST_PAUSE_S, pause_s
from tidegate.daemon.settings import Settings

SETTINGS = Settings(postgres_dsn="", kafka_servers="", notify_retry_s=5.0)


@pytest.mark.parametrize(("tries", "least"), [(1, 5.0), (2, 10.0), (3, 20.0), (8, LONGEST_PAUSE_S), (10_000, LONGEST_PAUSE_S)])
def test_the_pause_doubles_up_to_a_cap_and_is_spread(tries: int, least: float) -> None:
    pauses = [pause_s(SETTINGS, tries) for _ in range(200)]

    assert all(least <= pause <= least * 1.25 for pause in pauses)
    assert max(pauses) - min(pauses) > least / 8
