"""Where a chain of missing datasets ends, and where it goes on."""

from typing import Any

import pytest

from tidegate.daemon.read_model.arrival import Arrival
from tidegate.daemon.read_model.causes import further, own_causes


def arrival(**facts: Any) -> Arrival:
    known: dict[str, Any] = {**dict.fromkeys(Arrival.__struct_fields__), "is_active": False, "missing": (), **facts}
    return Arrival(**known)


WAITS, RUNS, PAUSED = arrival(missing=("s://a", "s://b")), arrival(is_active=True, missing=("s://c",)), arrival()


@pytest.mark.parametrize(
    ("arrivals", "goes_on", "ends"),
    [
        ([], set(), [None]),
        ([WAITS], {"s://a", "s://b"}, []),
        ([RUNS], set(), [RUNS]),
        ([PAUSED, WAITS], {"s://a", "s://b"}, [PAUSED]),
    ],
)
def test_a_chain_goes_on_at_dags_that_wait_for_datasets(arrivals: list[Arrival], goes_on: set[str], ends: list[Any]) -> None:
    assert (further(arrivals), own_causes(arrivals)) == (goes_on, ends)
