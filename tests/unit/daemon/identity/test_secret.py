"""CSRF tokens of a session."""

import pytest

from tidegate.daemon.identity.secret import csrf_token, is_csrf_token


def test_each_page_has_a_token_of_its_own() -> None:
    """Compressed answers do not tell a text that is never the same."""
    tokens = {csrf_token("tdg_a") for _ in range(10)}

    assert len(tokens) == 10
    assert all(is_csrf_token("tdg_a", token) for token in tokens)
    assert not any(is_csrf_token("tdg_b", token) for token in tokens)


@pytest.mark.parametrize(
    "given", ["", "é", "0", "00" * 32, "00" * 63, csrf_token("tdg_a")[:64], *(csrf_token("tdg_a") + end for end in ("zz", "00"))]
)
def test_another_text_is_none(given: str) -> None:
    assert not is_csrf_token("tdg_a", given)
