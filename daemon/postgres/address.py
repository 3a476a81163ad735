"""Addresses of Postgres: their shape, and the servers in them."""

import re
from typing import NamedTuple
from urllib.parse import parse_qs, unquote

PORT = 5432

_HOST = re.compile(r"(\[[\da-fA-F:.%]+\]|[^:\[\]]*)(:\d{1,5})?")


def has_password(dsn: str) -> bool:
    """Whether the address has a password, of the user or of a key, and not the name of a file with it."""
    location, _, options = dsn.partition("://")[2].partition("?")
    user = location.partition("/")[0].rpartition("@")[0]
    return ":" in user or any(name.endswith("password") for name in parse_qs(options))


def is_postgres_address(dsn: str) -> bool:
    """Whether it is `postgresql://`, and hosts with ports between commas. The rest is for the driver to judge."""
    return dsn.partition("://")[0] in ("postgresql", "postgres") and all(map(_HOST.fullmatch, _hosts(dsn)))


class Address(NamedTuple):
    """Host and port of a server."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def servers(dsn: str) -> list[Address]:
    """The addresses in the DSN."""
    return [_address(host) for host in _hosts(dsn) if host]


def _hosts(dsn: str) -> list[str]:
    """The hosts with their ports, as they stand in the address."""
    return re.split(r"[/?#]", dsn.partition("://")[2], maxsplit=1)[0].rpartition("@")[2].split(",")


def _address(part: str) -> Address:
    host, _, port = part.rpartition("]" if part.startswith("[") else ":") if ":" in part else (part, "", "")
    return Address(unquote(host.strip("[")) or "localhost", int(port.strip(":") or PORT))
