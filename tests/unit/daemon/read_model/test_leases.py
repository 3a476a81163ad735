"""The leases of a daemon in words."""

import pytest

from tidegate.daemon.read_model.leases import leases_text
from tidegate.schemas.queries.system_pages import OwnedLease


@pytest.mark.parametrize(
    ("owns", "text"),
    [
        ((), ""),
        ((("clock", "3"),), "clock 3"),
        ((("clock", "10"), ("clock", "9"), ("clock", "0"), ("clock", "11")), "clock 0, 9-11"),
        ((("partition", "a.b/1"), ("outbox", "0"), ("partition", "a.b/0")), "a.b 0-1; outbox 0"),
        ((("clock", "of another program"), ("clock", "0"), ("clock", "01")), "clock 0, 01, of another program"),
    ],
)
def test_numbers_are_ranges(owns: tuple[tuple[str, str], ...], text: str) -> None:
    assert leases_text([OwnedLease(*lease) for lease in owns]) == text
