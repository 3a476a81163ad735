"""The shape of an address of Postgres."""

import re

_HOST = re.compile(r"(\[[\da-fA-F:.%]+\]|[^:\[\]]*)(:\d{1,5})?")


def is_postgres_address(dsn: str) -> bool:
    """Whether it is `postgresql://`, and hosts with ports between commas. The rest is for the driver to judge."""
    scheme, _, location = dsn.partition("://")
    hosts = re.split(r"[/?#]", location, maxsplit=1)[0].rpartition("@")[2].split(",")
    return scheme in ("postgresql", "postgres") and all(map(_HOST.fullmatch, hosts))
