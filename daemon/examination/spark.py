"""Whether the addresses of Spark that tasks need accept connections from this host."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

import anyio

from tidegate.daemon.settings import Settings
from tidegate.schemas.cluster import ADDRESSES, MASTER, SETTING
from tidegate.schemas.queries.system_pages import SparkNeed
from tidegate.schemas.text import counted

PORTS: Mapping[str, int] = {"sc": 15002, "spark": 7077}
"""The schemes whose addresses name a server, with their default ports. Others, such as `yarn` and `local`, are not asked."""


class Server(NamedTuple):
    """A server that tasks need: its places, of which one has to answer, and the setting with its address."""

    name: str
    places: Sequence[tuple[str, int]]
    setting: str
    need: SparkNeed


def servers(needs: Sequence[SparkNeed], settings: Settings) -> Iterator[Server]:
    """The servers of these needs that the settings name. A cluster that they lack is a matter of other hosts."""
    for need in needs:
        kind, name = ADDRESSES[need.backend], "the Spark master" if ADDRESSES[need.backend] == MASTER else "Spark Connect"
        if not need.cluster:
            address, setting = getattr(settings, f"spark_{kind}"), f"TIDEGATE_SPARK_{kind.upper()}"
        else:
            address, setting = getattr(settings.clusters.get(need.cluster), kind, ""), SETTING
            name = f"{name} of cluster {need.cluster!r}"
        if places := places_of(address):
            yield Server(name, places, setting, need)


def places_of(address: str) -> list[tuple[str, int]]:
    """The hosts and ports of an address of Spark; none if it names no server."""
    scheme, _, rest = address.partition("://")
    if scheme not in PORTS:
        return []
    try:
        parts = [urlsplit(f"//{place}") for place in rest.partition("/")[0].split(",")]
        return [(part.hostname, part.port or PORTS[scheme]) for part in parts if part.hostname]
    except ValueError:
        return []


async def problem_of(server: Server, timeout_s: float) -> str | None:
    """Why a server does not accept connections, and what to do; None if it does."""
    why = ""
    with anyio.move_on_after(timeout_s):
        for host, port in server.places:
            try:
                async with await anyio.connect_tcp(host, port):
                    return None
            except OSError as error:
                why = f": {error.strerror or error}"
    return _sentence(server, why or f" within {timeout_s:g} s")


def _sentence(server: Server, why: str) -> str:
    where = ", ".join(f"{host}:{port}" for host, port in server.places)
    more = f" and {counted(server.need.dags - 1, 'other DAG', 'other DAGs')}" if server.need.dags > 1 else ""
    need = f"{server.need.dag_id!r}{more} cannot run there"
    return f"{server.name} does not answer this host at {where}{why}; {need}: start it, or correct {server.setting}"
