"""CSRF tokens of a session."""

from collections.abc import Callable

import pytest

from tidegate.daemon.identity.secret import csrf_token, is_csrf_token


def test_each_page_has_a_token_of_its_own() -> None:
    """Compressed answers do not tell a text that is never the same."""
    tokens = {csrf_token("tdg_a") for _ in range(10)}

    assert len(tokens) == 10
    assert all(is_csrf_token("tdg_a", token) for token in tokens)
    assert not any(is_csrf_token("tdg_b", token) for token in tokens)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda _: "",
        lambda _: "é",
        lambda _: "0",
        lambda _: "00" * 32,
        lambda _: "00" * 63,
        lambda token: token[:64],
        lambda token: f"{token}zz",
        lambda token: f"{token}00",
    ],
)
def test_another_text_is_none(spoil: Callable[[str], str]) -> None:
    assert not is_csrf_token("tdg_a", spoil(csrf_token("tdg_a")))
