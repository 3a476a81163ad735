"""The examples of `daemon/docs/api.md`, as a shell runs them."""

import os
import shutil
from pathlib import Path

import anyio
import msgspec
import pytest

from tests.documents import ROOT, blocks, steps
from tests.integration.web.conftest import Site
from tidegate.daemon.permissions import Role

COMMANDS = [
    step.command
    for block in blocks("console")
    if block.page == ROOT / "daemon/docs/api.md"
    for step in steps(block)
    if step.command.startswith("curl")
]


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
async def test_every_example_succeeds(site: Site, tmp_path: Path) -> None:
    await site.history.file()
    await site.history.run()
    token = await site.token(Role.OPERATOR)
    environment = {**os.environ, "TIDEGATE_SERVER": site.address, "TIDEGATE_TOKEN": token}

    assert len(COMMANDS) == 9
    for command in COMMANDS:
        ran = await anyio.run_process(["sh", "-c", command], cwd=tmp_path, env=environment, check=False)
        assert ran.returncode == 0, (command, ran.stdout, ran.stderr)
        msgspec.json.decode(ran.stdout)
