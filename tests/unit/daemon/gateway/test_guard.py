"""The host of a request."""

import pytest

from tidegate.daemon.gateway.guard import host_of


@pytest.mark.parametrize(
    ("header", "host"),
    [
        ("Example.ORG", "example.org"),
        ("example.org:8780", "example.org"),
        ("example.org.", "example.org"),
        ("127.0.0.1:80", "127.0.0.1"),
        ("[::1]:8780", "::1"),
        ("[::1]", "::1"),
        ("::1", "::1"),
        ("", ""),
        ("evil.example@localhost", "evil.example@localhost"),
    ],
)
def test_a_header_names_a_host(header: str, host: str) -> None:
    assert host_of(header) == host
