"""`tidegate check --sandbox`: what isolates DAG files on this host, and what they reach."""

import os
from collections.abc import Iterable, Iterator

import anyio
import typer

from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.pages.sandbox import Sandbox, print_sandbox
from tidegate.daemon.dagfiles.isolation import hints, means, reachable
from tidegate.daemon.dagfiles.message import Hello
from tidegate.daemon.dagfiles.readable import PROGRAMS, outermost
from tidegate.daemon.dagfiles.sandbox import open_zygotes
from tidegate.daemon.settings import PREFIX, Settings, dags_root

CLOSED = ("spool_dir", "secrets_dir", "kafka_sasl_password_file", "kafka_ssl_key_file", "kafka_ssl_key_password_file")
"""The settings whose folders and files no DAG file has to read."""


def check_sandbox(settings: Settings, *, json: bool) -> None:
    """Print the page. Raises Exit with 1 if a means is missing, so that something is reachable, or if a secret is readable."""
    found = sandbox_of(settings, anyio.run(_hello))
    output.write_page(found, lambda: print_sandbox(found), json=json)
    if found.reachable or found.exposed:
        raise typer.Exit(1)


def sandbox_of(settings: Settings, host: Hello) -> Sandbox:
    """The page of the sandboxes on this host."""
    readable = outermost(map(os.path.realpath, (str(dags_root(settings)), *host.readable)))
    return Sandbox(
        means=means(host.isolation),
        reachable=reachable(host.isolation, as_nobody=host.as_nobody),
        hint=hints(host.isolation),
        readable=readable,
        exposed=tuple(_exposed(settings, (*readable, *PROGRAMS))),
    )


async def _hello() -> Hello:
    async with open_zygotes(os.environ) as zygotes:
        return zygotes.host


def _exposed(settings: Settings, readable: Iterable[str]) -> Iterator[str]:
    """The settings with a path below a readable one."""
    for name in CLOSED:
        value = getattr(settings, name)
        path = os.path.realpath(os.path.expanduser(value))
        for folder in readable:
            if value and f"{path}/".startswith(f"{folder}/"):
                yield f"{PREFIX}{name.upper()} is {path}, which DAG files may read because of {folder}; move it elsewhere"
