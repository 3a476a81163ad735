"""JSON that no server stores is refused with what is wrong with it."""

import pytest

from tidegate.daemon.gateway.json_input import decode


@pytest.mark.parametrize("content", [rb'{"a": "\ud800"}', rb'"\\\uD9ff and more"', rb'["\ud800\u0041"]'])
def test_half_a_surrogate_pair_is_named(content: bytes) -> None:
    with pytest.raises(ValueError, match="one half of a surrogate pair"):
        decode(content)


@pytest.mark.parametrize("content", [rb'"\ud83d\ude00"', rb'"\\ud800"'])
def test_whole_pairs_and_written_backslashes_are_read(content: bytes) -> None:
    assert isinstance(decode(content), str)


def test_another_error_is_that_of_the_text() -> None:
    with pytest.raises(ValueError, match="truncated"):
        decode(b'{"a": ')
