"""Which offsets a halted partition can be resumed at."""

import pytest

from tidegate.daemon.intake.resumption import Halted, OffsetError
from tidegate.events.source import Bounds
from tidegate.schemas.queries.leases import Incident

HALTED = Halted(Incident("updates/0", 1, 2, 9), Bounds(2, 9))


@pytest.mark.parametrize(("at", "offset"), [("earliest", 2), ("latest", 9), ("2", 2), ("9", 9), ("007", 7)])
def test_an_offset_of_the_log_is_taken(at: str, offset: int) -> None:
    assert HALTED.offset(at) == offset


@pytest.mark.parametrize(
    "at", ["", "1", "10", "-2", "+2", " 2", "2.0", "٢", "²", "soon", pytest.param("2" * 5000, id="of 5,000 digits")]
)
def test_any_other_is_refused_with_the_range(at: str) -> None:
    with pytest.raises(OffsetError, match=r"^write earliest, latest, or 2 to 9$"):
        HALTED.offset(at)
