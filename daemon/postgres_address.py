"""The shape of an address of Postgres."""

import re
from urllib.parse import parse_qs

_HOST = re.compile(r"(\[[\da-fA-F:.%]+\]|[^:\[\]]*)(:\d{1,5})?")


def has_password(dsn: str) -> bool:
    """Whether the address has a password, of the user or of a key, and not the name of a file with it."""
    location, _, options = dsn.partition("://")[2].partition("?")
    user = location.partition("/")[0].rpartition("@")[0]
    return ":" in user or any(name.endswith("password") for name in parse_qs(options))


def is_postgres_address(dsn: str) -> bool:
    """Whether it is `postgresql://`, and hosts with ports between commas. The rest is for the driver to judge."""
    scheme, _, location = dsn.partition("://")
    hosts = re.split(r"[/?#]", location, maxsplit=1)[0].rpartition("@")[2].split(",")
    return scheme in ("postgresql", "postgres") and all(map(_HOST.fullmatch, hosts))
