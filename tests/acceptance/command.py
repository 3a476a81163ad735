"""The command as it is installed, as a process of its own."""

import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import msgspec

TIDEGATE = str(Path(sys.executable).with_name("tidegate"))
WITHIN_S = 120.0


class Ended(NamedTuple):
    """A process that ended."""

    code: int
    out: str
    err: str


Tidegate = Callable[..., Awaitable[Ended]]


async def run(*command: str, env: Mapping[str, str], cwd: Path) -> Ended:
    """Raises TimeoutError for one that does not end."""
    with anyio.fail_after(WITHIN_S):
        process = await anyio.run_process(command, env=env, cwd=cwd, check=False)
    return Ended(process.returncode, process.stdout.decode(), process.stderr.decode())


def environment() -> dict[str, str]:
    """Ours without any setting."""
    return {name: value for name, value in os.environ.items() if not name.startswith("TIDEGATE_")}


class Command:
    """`tidegate` beside the two daemons."""

    def __init__(self, home: Path, **settings: str) -> None:
        self.home = home
        self.env = environment() | {f"TIDEGATE_{name.upper()}": value for name, value in settings.items()}

    async def __call__(self, *args: str) -> Ended:
        return await run(TIDEGATE, *args, env=self.env, cwd=self.home)

    async def answer(self, *args: str) -> Any:
        return msgspec.json.decode((await self(*args, "--json")).out)
