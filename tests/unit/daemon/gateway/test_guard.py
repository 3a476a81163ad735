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
        ("example.org:", "example.org"),
        ("example.org:65535", "example.org"),
        ("example.org:65536", "example.org:65536"),
        ("example.org:99999999", "example.org:99999999"),
        ("example.org:http", "example.org:http"),
        ("[::1]:65536", "[::1]:65536"),
        ("evil.example@localhost", "evil.example@localhost"),
    ],
)
def test_a_header_names_a_host(header: str, host: str) -> None:
    assert host_of(header) == host
